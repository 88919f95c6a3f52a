"""mini-swe-agent's configurations for Docker, as the sandbox environment takes them."""

from __future__ import annotations

import logging
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError
from swerl_agent.sandbox import Session, blocking

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

import minisweagent
from swerl_agent.integrations.mini_swe_agent import SandboxEnvironment, SandboxEnvironmentConfig, interpreted

BENCHMARKS = Path(minisweagent.__file__).parent / "config" / "benchmarks"


def environment_of(benchmark: str) -> dict[str, Any]:
    """The section of mini-swe-agent's own configuration, without the class that it chooses."""
    section: dict[str, Any] = yaml.safe_load((BENCHMARKS / f"{benchmark}.yaml").read_text())["environment"]
    section.pop("environment_class")
    return section


@pytest.mark.parametrize("benchmark", ["swebench", "swebench_backticks", "swebench_xml"])
def test_own_configurations_are_accepted(benchmark: str) -> None:
    config = SandboxEnvironmentConfig(image="python:3.12", **environment_of(benchmark))
    assert (config.cwd, config.timeout, config.interpreter) == ("/testbed", 60, ["bash", "-c"])
    assert config.env["PAGER"] == "cat" and config.sandbox_options() == {"lifetime_seconds": 7200}


def test_docker_only_options_are_refused() -> None:
    section = environment_of("programbench")
    with pytest.raises(ValidationError, match=r"run_args --rm --network none .* need Docker.*run_args: "):
        SandboxEnvironmentConfig(image="python:3.12", **section)
    config = SandboxEnvironmentConfig(image="python:3.12", **section | {"run_args": []})
    assert config.sandbox_options() == {"lifetime_seconds": 7 * 3600}
    with pytest.raises(ValidationError, match="imaeg"):
        SandboxEnvironmentConfig(image="python:3.12", imaeg="python:3.12")  # type: ignore[call-arg]


@pytest.mark.parametrize(("time", "seconds"), [("2h", 7200), ("1.5m", 90), ("3", 3), ("0.2s", 1), ("1d", 86400)])
def test_lifetime_has_the_format_of_sleep(time: str, seconds: int) -> None:
    assert SandboxEnvironmentConfig(image="i", container_timeout=time).sandbox_options() == {
        "lifetime_seconds": seconds
    }


def test_network_isolation_is_a_field_of_newer_versions() -> None:
    egress = [
        SandboxEnvironmentConfig(image="i", isolate_network=isolate).sandbox_options().get("egress")
        for isolate in (None, True, False)
    ]
    assert egress == [None, "none", "allow"]
    config = SandboxEnvironmentConfig(image="i", isolate_network=False, sandbox={"egress": "none"})
    assert config.sandbox_options()["egress"] == "none"


def test_logger_says_when_the_sandbox_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Claimed(nullcontext):
        name = "swesb-x-0"

        def __enter__(self):
            return [self]

    monkeypatch.setattr(blocking.BlockingSandbox, "claim", lambda *args, **options: Claimed())
    with caplog.at_level("INFO", logger="mine"):
        SandboxEnvironment(image="i", isolate_network=True, logger=logging.getLogger("mine"))
    assert caplog.messages == ["Started sandbox swesb-x-0"]


def test_lifetime_of_sandbox_has_precedence() -> None:
    config = SandboxEnvironmentConfig(image="i", container_timeout="1h", sandbox={"lifetimeSeconds": 5})
    assert config.sandbox_options() == {"lifetimeSeconds": 5}
    with pytest.raises(ValidationError, match="not a time in the format of `sleep`: 'soon'"):
        SandboxEnvironmentConfig(image="i", container_timeout="soon")


async def test_interpreter_gets_the_command(session: Session) -> None:
    command = "echo \"$0 $A\"; echo 'it'\\''s' >&2; exit 7"
    text = interpreted({"command": command}, ["sh", "-c"], {"A": "x\n'y'"})
    result = await session.run(text, timeout=20)
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"sh x\n'y'\nit's\n", b"")


async def test_missing_interpreter_fails_the_command(session: Session) -> None:
    result = await session.run(interpreted({"command": "1"}, ["no-such-program", "-e"], {}), timeout=20)
    assert result.exit_code == 127 and b"no-such-program" in result.stdout


@pytest.mark.parametrize(
    ("image_folder", "home"), [("dash", "/image"), ("busybox", "/profile")], indirect=["image_folder"]
)
async def test_interpreter_has_the_variables_of_the_image(session: Session, home: str, tmp_path: Path) -> None:
    environ = tmp_path / "environ"
    environ.write_text("HOME=/image\0ODD%NAME=1\0TEXT=a\nb\0")
    text = interpreted({"command": 'echo "$HOME $A"'}, ["sh", "-c"], {"A": "given"}, str(environ))
    result = await session.run(f"HOME=/profile\n{text}", timeout=20)
    assert result.stdout.decode() == f"{home} given\n"
