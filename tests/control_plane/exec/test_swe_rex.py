"""SWE-ReX's deployment and runtime on sandboxes: what its users rely on, in real Pods."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from minisweagent.environments.extra import swerex_docker
from swerex.deployment import get_deployment
from swerex.exceptions import (
    BashIncorrectSyntaxError,
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionExistsError,
)
from swerex.runtime.abstract import (
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)
from swerl_agent.integrations.swe_rex import SandboxDeployment, SandboxDeploymentConfig
from swerl_agent.integrations.swe_rex_bash import ShellLost
from swerl_agent.integrations.swe_rex_runtime import SandboxFailed, SandboxRuntime
from swerl_agent.sandbox import SandboxLost

from tests.conftest import kubectl
from tests.control_plane.exec.conftest import IMAGE, SMALL
from tests.control_plane.operator_process import Operator

SESSION = CreateBashSessionRequest(startup_timeout=20)
CLOSE = CloseBashSessionRequest()


@pytest.fixture(scope="module")
def fields(namespace: str, kubeconfig: str, operator: Operator) -> dict[str, Any]:
    return {"image": IMAGE, "namespace": namespace, "kubeconfig": kubeconfig, "sandbox": {"resources": SMALL}}


@pytest.fixture(scope="module")
def runtime(fields: dict[str, Any]) -> Iterator[SandboxRuntime]:
    deployment = SandboxDeployment(**fields)
    asyncio.run(deployment.start())
    yield deployment.runtime
    asyncio.run(deployment.stop())


class Shell:
    """The default session, in short words."""

    def __init__(self, runtime: SandboxRuntime) -> None:
        self.runtime = runtime

    async def run(self, command: str, *, timeout: float = 20, **options: Any) -> BashObservation:
        return await self.runtime.run_in_session(BashAction(command=command, timeout=timeout, **options))

    async def output(self, command: str) -> str:
        return (await self.run(command)).output


@pytest.fixture
async def shell(runtime: SandboxRuntime) -> AsyncIterator[Shell]:
    await runtime.create_session(SESSION)
    yield Shell(runtime)
    await runtime.close_session(CLOSE)


async def test_deployment_starts_and_stops(fields: dict[str, Any], kubeconfig: str, namespace: str) -> None:
    deployment = get_deployment(SandboxDeploymentConfig(**fields))
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()
    await deployment.start()
    assert await deployment.is_alive(timeout=30)
    name = (await deployment.runtime.execute(Command(command=["cat", "/etc/hostname"], timeout=20))).stdout.strip()
    await deployment.stop()
    await deployment.stop()
    with pytest.raises(DeploymentNotStartedError):
        await deployment.is_alive()
    kubectl(kubeconfig, "-n", namespace, "wait", "--for=delete", f"pod/{name}", "--timeout=60s")


async def test_unavailable_sandbox_fails_the_start(fields: dict[str, Any]) -> None:
    with pytest.raises(DeploymentStartupError, match="resources"):
        await SandboxDeployment(**fields | {"sandbox": {"resources": 1}}).start()


async def test_session_keeps_its_state(shell: Shell) -> None:
    await shell.run(
        "cd /tmp; export COLOUR=green; plain=1; greet() { echo hello $1; }; shopt -s extglob; declare -i n=4"
    )
    assert (
        await shell.output("pwd; printenv COLOUR; echo $plain; greet you; n=n+1; echo $n")
        == "/tmp\ngreen\n1\nhello you\n5\n"
    )
    assert await shell.output("echo !(x) >/dev/null && echo extended") == "extended\n"
    await shell.run("(exit 7)", check="silent")
    assert await shell.output("echo $?") == "7\n"


def test_calls_may_come_from_any_event_loop(runtime: SandboxRuntime) -> None:
    asyncio.run(runtime.create_session(CreateBashSessionRequest(session="loops")))
    asyncio.run(runtime.run_in_session(BashAction(command="x=5", session="loops", timeout=20)))
    observation = asyncio.run(runtime.run_in_session(BashAction(command="echo $x", session="loops", timeout=20)))
    assert observation.output == "5\n"
    asyncio.run(runtime.close_session(CloseBashSessionRequest(session="loops")))


async def test_session_name_is_unique(shell: Shell) -> None:
    with pytest.raises(SessionExistsError):
        await shell.runtime.create_session(SESSION)


async def test_check_controls_exit_code_errors(shell: Shell) -> None:
    assert (await shell.run("echo out; false\n(exit 3)", check="silent")).exit_code == 3
    assert (await shell.run("exit_code_is_not_asked=1; false", check="ignore")).exit_code is None
    with pytest.raises(NonZeroExitCodeError, match=r"^while counting: .*exit code 4"):
        await shell.run("(exit 4)", error_msg="while counting")


async def test_command_arrives_unchanged(shell: Shell) -> None:
    special_characters = "tab\there !! !x \\n \"two\" 'one' $HOME `id` \x01\x03\x04\x1a\x7f ünï \N{SNOWMAN} %s"
    text = special_characters + "\n" + "\n".join(f"{number} {'x' * 90}" for number in range(1500)) + "\n"
    await shell.run(f"cat >/tmp/odd <<'END'\n{text}END")
    assert (await shell.runtime.read_file(ReadFileRequest(path="/tmp/odd"))).content == text


async def test_syntax_error_runs_nothing(shell: Shell) -> None:
    with pytest.raises(BashIncorrectSyntaxError) as caught:
        await shell.run("touch /tmp/never\nif then")
    assert "syntax error" in caught.value.extra_info["bash_stderr"]
    assert await shell.output("ls /tmp/never 2>/dev/null || echo none") == "none\n"


async def test_output_has_no_escapes_or_carriage_returns(shell: Shell) -> None:
    assert await shell.output("printf '\\033[1;31mred\\033[0m\\r\\n  x'; echo err >&2") == "red\r\n  xerr\n"
    assert len(await shell.output("head -c 3000000 /dev/zero | tr '\\0' z")) == 3_000_000


async def test_timed_out_command_can_be_interrupted(shell: Shell) -> None:
    with pytest.raises(CommandTimeoutError):
        await shell.run("echo begun; sleep 100; echo never", timeout=1)
    with pytest.raises(CommandTimeoutError, match="earlier command"):
        await shell.run("echo too early", timeout=1)
    done = await shell.runtime.run_in_session(BashInterruptAction(timeout=5))
    assert done.output == "begun" and done.exit_code == 0
    assert await shell.output("echo goes on") == "goes on\n"


async def test_next_action_waits_for_a_late_command(shell: Shell) -> None:
    with pytest.raises(CommandTimeoutError):
        await shell.run("sleep 3; echo late", timeout=1)
    assert await shell.output("echo next") == "next\n"


async def test_program_that_ignores_the_interrupt_is_killed(shell: Shell) -> None:
    script = "import signal, time\nfor n in 2, 20: signal.signal(n, 1)\nprint('here', flush=True)\ntime.sleep(99)"
    with pytest.raises(CommandTimeoutError):
        await shell.run(f'stty raw; python3 -c "{script}"', timeout=2)
    assert "here" in (await shell.runtime.run_in_session(BashInterruptAction())).output
    assert "goes on\n" in await shell.output("stty sane -echo; echo goes on")


async def test_interrupt_during_a_command(shell: Shell) -> None:
    running = asyncio.create_task(shell.run("echo begun; sleep 100", check="silent", timeout=60))
    await asyncio.sleep(1)
    await shell.runtime.run_in_session(BashInterruptAction(timeout=5))
    ended = await running
    assert (ended.output.strip(), ended.exit_code) == ("begun", 130)


async def test_interactive_program(shell: Shell) -> None:
    prompt = await shell.run("python3", is_interactive_command=True, expect=["[>]{3} "])
    assert prompt.expect_string == "[>]{3} " and "Python 3" in prompt.output
    output = await shell.run("print(6 * 7)", is_interactive_command=True, expect=[">>> "])
    assert output.output == "42\n"
    with pytest.raises(CommandTimeoutError):
        await shell.run("import time; time.sleep(99)", is_interactive_command=True, expect=[">>> "], timeout=1)
    stopped = await shell.runtime.run_in_session(BashInterruptAction(timeout=5, expect=[">>> "]))
    assert "KeyboardInterrupt" in stopped.output
    await shell.run("quit()", is_interactive_quit=True)
    assert await shell.output("echo back") == "back\n"


async def test_startup_files_may_change_the_prompt(runtime: SandboxRuntime) -> None:
    text = "PS1='(mine) '; PROMPT_COMMAND='echo prompting'; export FROM_FILE=yes; echo sourced\n"
    await runtime.write_file(WriteFileRequest(path="/tmp/rc", content=text))
    request = CreateBashSessionRequest(startup_source=["/tmp/rc", "/not/there"], startup_timeout=20)
    output = (await runtime.create_session(request)).output
    assert output.startswith("sourced\n") and "No such file" in output
    assert await Shell(runtime).output("echo $FROM_FILE; . /tmp/rc") == "yes\nsourced\n"
    assert await Shell(runtime).output("echo again") == "again\n"
    await runtime.close_session(CLOSE)


async def test_ended_shell_raises(runtime: SandboxRuntime) -> None:
    await runtime.create_session(SESSION)
    for command in ("exit 3", "echo more"):
        with pytest.raises(ShellLost, match="exit code 3"):
            await Shell(runtime).run(command)
    await runtime.close_session(CLOSE)
    await runtime.create_session(SESSION)
    assert await Shell(runtime).output("echo again") == "again\n"
    await runtime.close_session(CLOSE)


async def test_lost_stream_raises(runtime: SandboxRuntime) -> None:
    await runtime.create_session(SESSION)
    channel = runtime._shells["default"]._open_channel()
    await runtime._loop.run(channel.close())
    with pytest.raises(ShellLost, match="stream to the session was lost"):
        await Shell(runtime).run("true")
    assert await runtime.is_alive()
    await runtime.close_session(CLOSE)


async def test_closing_a_session_kills_its_programs(runtime: SandboxRuntime) -> None:
    await runtime.create_session(SESSION)
    with pytest.raises(CommandTimeoutError):
        await Shell(runtime).run("sleep 98765", timeout=1)
    await runtime.close_session(CLOSE)
    wait_until_ended = "for i in 1 2 3 4 5 6 7 8 9 10; do pgrep -f '[s]leep 98765' || exit 0; sleep 1; done; exit 1"
    assert (await runtime.execute(Command(command=wait_until_ended, shell=True, timeout=20))).exit_code == 0


async def test_execute(runtime: SandboxRuntime) -> None:
    async def run(command: str | list[str], **options: Any) -> tuple[str, str, int | None]:
        done = await runtime.execute(Command(command=command, timeout=20, **options))
        return done.stdout, done.stderr, done.exit_code

    assert await run("echo $0; echo err >&2; exit 5", shell=True) == ("/bin/sh\n", "err\n", 5)
    assert await run("pwd", cwd="/usr/lib") == ("/usr/lib\n", "", 0)
    assert (await run(["printenv"], env={"ONLY": "o'ne\ntwo"}))[0] == "ONLY=o'ne\ntwo\n"
    assert len((await run("head -c 2000000 /dev/zero | tr '\\0' z", shell=True))[0]) == 2_000_000
    for absent in ({"command": "echo x"}, {"command": ["echo"], "cwd": "/not/there"}):
        with pytest.raises(FileNotFoundError):
            await run(**absent)
    with pytest.raises(NonZeroExitCodeError, match=r"^why: "):
        await run("exit 1", shell=True, check=True, error_msg="why")


async def test_files_are_read_and_written_as_in_python(runtime: SandboxRuntime, tmp_path: Path) -> None:
    setup = "cd /tmp; echo old >tool; chmod 751 tool; ln -s tool link; printf 'caf\\351\\r\\nb' >latin; mkdir -p folder"
    await runtime.execute(Command(command=setup, shell=True, check=True, timeout=20))
    await runtime.write_file(WriteFileRequest(path="/tmp/link", content="né\n"))
    result = await runtime.execute(
        Command(command="stat -c '%a %F' tool; cat tool; stat -c %F link", shell=True, cwd="/tmp")
    )
    assert result.stdout == "751 regular file\nné\nsymbolic link\n"
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/latin", encoding="latin-1"))).content == "café\nb"
    assert (await runtime.read_file(ReadFileRequest(path="/tmp/latin", errors="replace"))).content == "caf\ufffd\nb"
    with pytest.raises(UnicodeDecodeError):
        await runtime.read_file(ReadFileRequest(path="/tmp/latin"))
    for path, kind in (("/tmp/folder", IsADirectoryError), ("/tmp/none", FileNotFoundError)):
        with pytest.raises(kind):
            await runtime.read_file(ReadFileRequest(path=path))
    with pytest.raises(OSError) as caught:
        await runtime.write_file(WriteFileRequest(path="/tmp/tool/below", content=""))
    assert caught.value.errno in (errno.EIO, errno.ENOENT)
    with pytest.raises(ValueError, match="not a file or directory"):
        await runtime.upload(UploadRequest(source_path=str(tmp_path / "none"), target_path="/tmp/x"))


async def test_lost_sandbox_raises(fields: dict[str, Any], kubeconfig: str, namespace: str) -> None:
    deployment = SandboxDeployment(**fields)
    await deployment.start()
    try:
        await deployment.runtime.create_session(SESSION)
        name = (await Shell(deployment.runtime).output("cat /etc/hostname")).strip()
        kubectl(kubeconfig, "-n", namespace, "delete", "pod", name, "--grace-period=0", "--wait=true")
        with pytest.raises(SandboxFailed) as caught:
            await Shell(deployment.runtime).run("true")
        assert isinstance(caught.value.__cause__, SandboxLost)
        assert not await deployment.is_alive()
    finally:
        await deployment.stop()


def test_agent_for_docker_deployments_works(fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(swerex_docker, "DockerDeployment", SandboxDeployment)
    image = fields.pop("image")
    environment = swerex_docker.SwerexDockerEnvironment(image=image, deployment_extra_kwargs=fields)
    try:
        done = environment.execute({"command": "pwd; echo err >&2; exit 3"}, cwd="/tmp")
        assert done == {"output": "/tmp\nerr\n", "returncode": 3, "exception_info": ""}
        result = environment.execute({"command": "sleep 60"}, timeout=1)
        assert result["extra"]["exception_type"] == "CommandTimeoutError"
    finally:
        fields["image"] = image
        asyncio.run(environment.deployment.stop())
