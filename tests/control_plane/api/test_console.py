"""The console of the chart: a Deployment on a claim, opened with tokens of the cluster."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from cluster.layout import cluster_name, state_folder, swerl_home
from tests.unit.agent.console.artifacts import RESOLVED, episode, write_rollout
from tests.unit.agent.tasks.rows import jsonl, swebench

from .conftest import ROOT, Kubectl, helm

CLAIM = "runs"
TASK = "django__django-13820"
OPTIONS = {
    "replicas": "0",
    "console.enabled": "true",
    "console.claim": CLAIM,
    "console.path": "jobs",
    "console.groundTruth": "tasks",
    "console.image.repository": "registry.swerl:5000/swe-rl/trainer",
    "console.image.tag": "latest",
}
VOLUME = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: runs}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


@dataclass
class Served:
    """The console behind a port-forward."""

    address: str
    episode: str  # path of the one episode
    release: str

    def get(self, page: str, token: str) -> tuple[int, str]:
        """Status and text of a page."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.address + page, headers=headers), timeout=60
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture(scope="module")
def served(kubeconfig: str, kubectl: Kubectl, namespace: str) -> Iterator[Served]:
    """An installed console whose claim has one job and the tasks of its episodes."""
    done = kubectl("create", "-n", namespace, "-f", "-", stdin=VOLUME)
    assert done.returncode == 0, done.stderr
    done = kubectl("wait", "-n", namespace, f"pvc/{CLAIM}", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s")
    assert done.returncode == 0, done.stderr
    volume = state_folder(swerl_home(), cluster_name()) / "volumes" / namespace / CLAIM
    folder = write_rollout(volume / "jobs" / "demo", episode(TASK), RESOLVED, 1)
    (volume / "tasks").mkdir()
    jsonl(volume / "tasks" / "t.jsonl", swebench(TASK))
    release = f"c-{os.getpid()}"
    options = ("--set", ",".join(f"{name}={value}" for name, value in OPTIONS.items()))
    done = helm(kubeconfig, "install", release, str(ROOT / "charts"), "-n", namespace, "--skip-crds", *options)
    assert done.returncode == 0, done.stderr
    try:
        done = kubectl("rollout", "status", f"deployment/{release}-console", "-n", namespace, "--timeout=110s")
        assert done.returncode == 0, f"{done.stderr}{kubectl('describe', 'pods', '-n', namespace).stdout[-3000:]}"
        service = f"service/{release}-console"
        command = ["kubectl", "--kubeconfig", kubeconfig, "port-forward", "-n", namespace, service, ":80"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
            assert forward.stdout
            found = re.search(r"127\.0\.0\.1:\d+", forward.stdout.readline())
            assert found
            yield Served(f"http://{found[0]}", str(folder.relative_to(volume / "jobs")), release)
            forward.terminate()
    finally:
        helm(kubeconfig, "uninstall", release, "-n", namespace, "--wait")


@pytest.fixture(scope="module")
def token(kubectl: Kubectl, namespace: str, served: Served) -> Iterator[object]:
    """Makes an account with these roles, and gives its token."""

    def make(account: str, *roles: str) -> str:
        kubectl("create", "serviceaccount", account, "-n", namespace)
        for role in roles:
            subject = f"--serviceaccount={namespace}:{account}"
            kubectl("create", "rolebinding", f"{account}-{role}", "-n", namespace, f"--clusterrole={role}", subject)
        return kubectl("create", "token", account, "-n", namespace).stdout.strip()

    yield make


def test_only_readers_of_jobs_open_it_and_only_some_see_ground_truth(served: Served, token) -> None:
    page = f"/episode?{urllib.parse.urlencode({'path': served.episode})}"
    assert served.get("/", "")[0] == 401
    assert served.get("/", "guess")[0] == 401
    assert served.get("/", token("stranger"))[0] == 401
    viewer = token("viewer", f"{served.release}-view")
    status, text = served.get(page, viewer)
    assert status == 200 and TASK in text and "Ground truth" not in text
    status, text = served.get(page, token("reviewer", f"{served.release}-view", f"{served.release}-ground-truth"))
    assert status == 200 and "Ground truth" in text and "Reference fix" in text


def test_its_account_reads_no_object(kubectl: Kubectl, namespace: str, served: Served) -> None:
    account = f"--as=system:serviceaccount:{namespace}:{served.release}-console"

    def allowed(verb: str, resource: str) -> bool:
        return kubectl("auth", "can-i", verb, resource, "-n", namespace, account).stdout.strip() == "yes"

    assert allowed("create", "tokenreviews.authentication.k8s.io")
    assert allowed("create", "subjectaccessreviews.authorization.k8s.io")
    for verb, resource in (("get", "secrets"), ("get", "pods"), ("list", "swerljobs.swerl.dev"), ("create", "pods")):
        assert not allowed(verb, resource), (verb, resource)


def test_header_without_a_proxy_is_refused(kubeconfig: str, namespace: str) -> None:
    values = ("--set", "console.enabled=true,console.claim=runs,console.auth=header")
    done = helm(kubeconfig, "install", "bad", str(ROOT / "charts"), "-n", namespace, *values)
    assert done.returncode != 0 and "console.auth header needs console.peers" in done.stderr
