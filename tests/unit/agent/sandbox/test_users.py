"""Commands as another user, with each of the programs that can do that."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from swerl_agent.sandbox import Session

from .conftest import BUSYBOX, ImageFolder, _populate, _populate_busybox

NOBODY_USER = pwd.getpwnam("nobody")
METHODS = {"setpriv": "dash", "runuser": "dash", "su": "bash", "su in busybox": "busybox"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, as the folders of an image."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def image(folder: Path, method: str) -> ImageFolder:
    """An image in which only `way` changes the user."""
    path, home = folder / "bin", folder / "home"
    home.mkdir()
    (home / ".profile").write_text(f"PATH={path}\n")  # /etc/profile of this machine leads to all of its programs
    method, _, busybox = method.partition(" in ")
    if busybox:
        _populate_busybox(path)
        (path / "chown").symlink_to(BUSYBOX)
        (path / method).symlink_to(shutil.which(method) or "")
    else:
        shell = shutil.which(METHODS.get(method, "dash")) or ""
        _populate(path, shell, ["bash", "setsid", "chown", *([method] if method else [])])
    return ImageFolder(path, method, home)


@pytest.fixture(params=METHODS)
def image_folder(request: pytest.FixtureRequest, open_folder: Path) -> ImageFolder:
    return image(open_folder, request.param)


@pytest.mark.parametrize("login", [True, False])
async def test_command_runs_as_the_user(session: Session, login: bool) -> None:
    text = 'id -u; id -g; echo "$HOME $USER $LOGNAME $A"; pwd; echo "it\'s"; exit 7'
    result = await session.run(text, timeout=20, user="nobody", cwd="/var", env={"A": "x\n'y'"}, login=login)
    expected = f"{NOBODY_USER.pw_uid}\n{NOBODY_USER.pw_gid}\n{NOBODY_USER.pw_dir} nobody nobody x\n'y'\n/var\nit's\n"
    assert (result.exit_code, result.stdout.decode(), result.stderr) == (7, expected, b"")
    assert (await session.run("id -u", timeout=20)).stdout == b"0\n"


async def test_user_may_be_a_number(session: Session) -> None:
    result = await session.run("id -u; echo $USER", timeout=20, user=str(NOBODY_USER.pw_uid))
    assert result.stdout.decode() == f"{NOBODY_USER.pw_uid}\nnobody\n"


async def test_user_may_reopen_its_outputs(session: Session) -> None:
    text = "echo one; echo two >>/dev/stdout; echo three >>/dev/stderr"
    result = await session.run(text, timeout=20, user="nobody")
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"one\ntwo\n", b"three\n")


async def test_loop_variables_do_not_leak_to_the_user(session: Session) -> None:
    result = await session.run("env; echo $#; ls /proc/self/fd; set | grep ^sw_", timeout=20, user="nobody")
    assert b"sw_" not in result.stdout and b"\n0\n" in result.stdout
    assert set(result.stdout.split(b"\n")[-5:-1]) <= {b"0", b"1", b"2", b"3"}


async def test_long_command_and_stdin_reach_the_user(session: Session) -> None:
    text = f"cat <<'EOF' | wc -c\n{'x' * 300_000}\nEOF\nid -u; wc -c"
    result = await session.run(text, timeout=30, user="nobody", stdin=bytes(200_000))
    assert result.stdout.split() == [b"300001", str(NOBODY_USER.pw_uid).encode(), b"200000"]


async def test_users_command_is_killed_at_its_timeout(session: Session) -> None:
    sleep_command = f"sleep {1_000_000 + int(session.token[:6], 16)}"
    result = await session.run(f"echo begun; {sleep_command} & {sleep_command}", timeout=3, user="nobody")
    assert result.timed_out and result.stdout == b"begun\n"
    remaining = await session.run(
        f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '[s]{sleep_command[1:]}'", timeout=20
    )
    assert remaining.stdout == b"0\n"


@pytest.mark.parametrize(
    ("user", "message"),
    [("nobody-here", "no such user"), ("", "a name or a number"), ("$(id)", "no such user"), ("-c", "no such user")],
)
async def test_unknown_user_fails_the_command(session: Session, user: str, message: str) -> None:
    result = await session.run("echo ran", timeout=20, user=user)
    assert (result.exit_code, result.stdout) == (126, b"")
    assert result.stderr.decode().startswith(f"cannot run as user {user}: ") and message in result.output


async def test_user_needs_access_to_the_working_directory(session: Session, open_folder: Path) -> None:
    (open_folder / "closed").mkdir(mode=0o700)
    result = await session.run("echo ran", timeout=20, user="nobody", cwd=str(open_folder / "closed"))
    assert (result.exit_code, result.stdout) == (126, b"")
    assert "cannot change to the working directory" in result.output


@pytest.mark.parametrize("image_folder", ["setpriv"], indirect=True)
async def test_setpriv_accepts_a_number_without_a_name(session: Session) -> None:
    result = await session.run("id -u; id -g; id -G; echo $HOME $USER", timeout=20, user="4711")
    assert result.stdout == b"4711\n4711\n4711\n/ 4711\n"


@pytest.mark.parametrize("image_folder", ["su"], indirect=True)
async def test_number_without_a_name_needs_setpriv(session: Session) -> None:
    result = await session.run("id -u", timeout=20, user="4711")
    assert result.exit_code == 126 and "needs setpriv" in result.output


@pytest.mark.parametrize("image_folder", [""], indirect=True)
async def test_image_without_setpriv_runuser_or_su_is_named(session: Session) -> None:
    result = await session.run("echo ran", timeout=20, user="nobody")
    assert result.exit_code == 126 and "neither setpriv nor runuser nor su" in result.output
    own_id = await session.run("id -u", timeout=20, user=str(os.getuid()))
    assert (own_id.exit_code, own_id.stdout.decode()) == (0, f"{os.getuid()}\n")
