"""SWE-ReX's own tests of what runs commands, unmodified, against a Pod.

They share their folder with what they test, so the Pod sees the folder under its own path; the pager that they start is
this machine's. Also here: an image without bash, a deployment that never stops, programs that find ours by its type.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from swerex.exceptions import SessionNotInitializedError
from swerex.runtime.abstract import Command, CreateBashSessionRequest
from swerl_agent.integrations.swe_rex import SandboxDeployment
from swerl_agent.integrations.swe_rex_runtime import SandboxRuntime

from cluster.layout import swerl_home
from tests.conftest import kubectl
from tests.control_plane.exec.conftest import IMAGE, SMALL, MakePod
from tests.control_plane.operator_process import Operator

REPOSITORY = Path(__file__).parents[3]
IMPORTS = os.pathsep.join(str(REPOSITORY / part) for part in ("crds", "operator", "agent", "."))
OTHER_SUBJECT = {"test_server_dead"}  # SWE-ReX's HTTP client, against a host that does not exist
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def fields(namespace: str, kubeconfig: str, operator: Operator) -> dict[str, Any]:
    return {"image": IMAGE, "namespace": namespace, "kubeconfig": kubeconfig, "sandbox": {"resources": SMALL}}


@pytest.fixture(scope="session")
def source() -> Path:
    """The source distribution of the installed SWE-ReX, fetched once."""
    version, home = importlib.metadata.version("swe-rex"), swerl_home() / "sdists"
    release = f"swe_rex-{version}"
    if not (home / release).is_dir():
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "-d", str(home)]
        subprocess.run([*command, f"swe-rex=={version}"], check=True, timeout=300)
        with tarfile.open(home / f"{release}.tar.gz") as archive:
            archive.extractall(home, filter="data")
    return home / release


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder that the Pod has, too, with the pager that one of the tests wants."""
    pager = shutil.which("less")
    assert pager is not None, "this test needs `less` (Debian: apt-get install less)"
    folder = tmp_path / "shared"
    (folder / "bin").mkdir(parents=True)
    shutil.copy(pager, folder / "bin" / "less")
    return folder


async def test_swe_rex_own_tests_pass(
    source: Path, shared: Path, make_pod: MakePod, kubeconfig: str, tmp_path: Path
) -> None:
    mount = {"name": "shared", "mountPath": str(shared)}
    pod = await make_pod(
        volumes=[{"name": "shared", "hostPath": {"path": str(shared)}}],
        volumeMounts=[mount],
        env=[{"name": "PATH", "value": f"{PATHS}:{shared}/bin"}],
        resources=SMALL,
    )
    tests = tmp_path / "their_tests"
    shutil.copytree(source / "tests", tests)
    (tests / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("swe_rex_conftest.py"), tests / "conftest.py")
    report, pod_name = tmp_path / "report.xml", f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={shared}/tmp", f"--junit-xml={report}", "--tb=short"]
    options = ["--timeout=120", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", f"--rootdir={tmp_path}"]
    done = await asyncio.to_thread(
        subprocess.run,
        [*command, *options, str(tests / "test_execution.py")],
        env=os.environ | {"PYTHONPATH": IMPORTS, "KUBECONFIG": kubeconfig, "SWERL_POD": pod_name},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert report.is_file(), done.stdout + done.stderr
    cases = {case.get("name"): len(case) == 0 for case in ElementTree.parse(report).iter("testcase")}
    assert len(cases) >= 49
    assert {name for name, passed in cases.items() if not passed} <= OTHER_SUBJECT, done.stdout


def test_image_without_bash_has_commands_but_no_sessions(fields: dict[str, Any]) -> None:
    async def use(runtime: SandboxRuntime) -> str:
        without = "rm -f /bin/bash /usr/bin/bash; echo $0"
        output = (await runtime.execute(Command(command=without, shell=True, timeout=20))).stdout
        with pytest.raises(SessionNotInitializedError, match="no bash"):
            await runtime.create_session(CreateBashSessionRequest())
        return output

    deployment = SandboxDeployment(**fields)
    asyncio.run(deployment.start())
    try:
        assert asyncio.run(use(deployment.runtime)) == "/bin/sh\n"
    finally:
        asyncio.run(deployment.stop())


PROGRAM = """
import asyncio, json, sys
from pydantic import BaseModel
from swerex.deployment.config import DeploymentConfig, get_deployment
from swerex.runtime.abstract import BashAction, CreateBashSessionRequest

class Config(BaseModel):
    deployment: DeploymentConfig

deployment = get_deployment(Config.model_validate_json(sys.argv[1]).deployment)
asyncio.run(deployment.start())
asyncio.run(deployment.runtime.create_session(CreateBashSessionRequest()))
print(asyncio.run(deployment.runtime.run_in_session(BashAction(command="echo $((6 * 7)) in $PWD"))).output)
asyncio.run(deployment.stop())
"""


def test_program_chooses_the_deployment_by_its_type(fields: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    fields["sandbox"] |= {"workdir": "/testbed"}
    config = json.dumps({"deployment": {"type": "swerl", **fields}})
    done = subprocess.run(
        [sys.executable, "-m", "swerl_agent.integrations.swe_rex", "program", config],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([IMPORTS, str(tmp_path)])},
        capture_output=True,
        text=True,
    )
    assert "42 in /testbed\n" in done.stdout, done.stdout + done.stderr


async def test_sandbox_is_deleted_with_an_unclosed_deployment(
    fields: dict[str, Any], kubeconfig: str, namespace: str
) -> None:
    deployment = SandboxDeployment(**fields)
    await deployment.start()
    name = (await deployment.runtime.execute(Command(command=["cat", "/etc/hostname"], timeout=20))).stdout.strip()
    del deployment
    kubectl(kubeconfig, "-n", namespace, "wait", "--for=delete", f"pod/{name}", "--timeout=30s")
    assert name not in kubectl(kubeconfig, "-n", namespace, "get", "pods", "-o", "name")
