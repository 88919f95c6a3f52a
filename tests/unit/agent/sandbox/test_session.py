"""Commands in a session, over real shells."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from swerl_agent.sandbox import FileMissing, FileTooLarge, PathIsDirectory, Session, TransferFailed

if TYPE_CHECKING:
    from .conftest import ImageFolder


async def test_result_has_exit_code_and_both_outputs(session: Session) -> None:
    result = await session.run("echo out; echo err >&2; exit 7", timeout=20)
    assert (result.exit_code, result.stdout, result.stderr) == (7, b"out\n", b"err\n")
    assert (result.stdout_bytes, result.stderr_bytes, result.timed_out) == (4, 4, False)
    assert result.output == "out\nerr\n"


async def test_run_seconds_are_measured_in_the_pod(session: Session) -> None:
    result = await session.run("sleep 0.5", timeout=20)
    assert result.run_seconds is not None and 0.49 <= result.run_seconds <= result.duration + 0.01


async def test_command_without_output(session: Session) -> None:
    result = await session.run("true", timeout=20)
    assert (result.exit_code, result.stdout, result.stderr, result.truncated) == (0, b"", b"", False)


async def test_any_text_arrives_unchanged(session: Session) -> None:
    text = "a 'b' \"c\" $HOME `x` \\ \n\ttab\r\n  two  spaces\n\n%s !end \udcff é"
    result = await session.run(f"cat <<'EOF'\n{text}\nEOF\n", timeout=20)
    assert result.stdout == (text + "\n").encode("utf-8", "surrogateescape")


async def test_command_of_half_a_megabyte(session: Session) -> None:
    text = "x" * 500_000
    result = await session.run(f"cat <<'EOF' | wc -c\n{text}\nEOF\n", timeout=30)
    assert int(result.stdout) == 500_001


async def test_working_directory_and_environment(session: Session, tmp_path: Path) -> None:
    folder = tmp_path / "it's here"
    folder.mkdir()
    result = await session.run('pwd; echo "$A-$B"', timeout=20, cwd=str(folder), env={"A": "1 '2'\n3", "B": ""})
    assert result.stdout.decode() == f"{folder}\n1 '2'\n3-\n"


async def test_each_command_starts_in_a_fresh_shell(session: Session) -> None:
    await session.run("X=1; cd /; export Y=2", timeout=20)
    assert (await session.run('echo "$X$Y$(pwd)"', timeout=20, cwd="/tmp")).stdout == b"/tmp\n"


@pytest.mark.parametrize("login", [True, False])
async def test_loop_variables_do_not_leak(session: Session, login: bool) -> None:
    result = await session.run(
        "env; echo $# $sw_dir$sw_notes$sw_text$sw_nl$sw_from$sw_rest; ls /proc/self/fd", timeout=20, login=login
    )
    assert b"sw_" not in result.stdout and b"\n0\n" in result.stdout
    assert set(result.stdout.split(b"\n")[-5:-1]) <= {b"0", b"1", b"2", b"3"}


@pytest.mark.parametrize("blocks", [True, False], ids=["dd", "no dd"])
async def test_long_output_is_complete(image_folder: ImageFolder, session: Session, blocks: bool) -> None:
    if not blocks:
        (image_folder.path / "dd").unlink()
    for last in (10_000, 100_000):  # below one piece of what is sent at once, and nine of them
        result = await session.run(f"seq 1 {last}", timeout=20, max_output=1 << 21)
        assert result.stdout == b"".join(b"%d\n" % number for number in range(1, last + 1))


@pytest.mark.parametrize("login", [None, True, False])
async def test_login_option_of_a_command_overrides_the_sessions(image_folder: ImageFolder, login: bool | None) -> None:
    (image_folder.home / ".profile").write_text("export PROFILE=read; twice() { echo $1 $1; }\n")
    long = "#" * 10_000
    async with Session(image_folder, login=False) as session:
        for text in ("echo :$PROFILE; twice 1; echo $OLDPWD", f"echo :$PROFILE; twice 1; echo $OLDPWD\n{long}"):
            result = await session.run(text, timeout=20, login=login)
            assert result.stdout == (b":read\n1 1\n\n" if login else b":\n\n")
    await image_folder.finish()
    image_folder.remove_state(session)


async def test_login_profile_is_read_for_every_command(session: Session, image_folder: ImageFolder) -> None:
    (image_folder.home / ".profile").write_text("export PROFILE=read; twice() { echo $1 $1; }; V=plain\n")
    await session.run("true", timeout=20)
    assert (await session.run("twice $PROFILE; echo $V", timeout=20)).stdout == b"read read\nplain\n"
    await session.run("echo PROFILE=changed >>~/.profile", timeout=20)
    result = await session.run("echo $PROFILE $HIDDEN", timeout=20, env={"HIDDEN": "given"})
    assert result.stdout == b"changed given\n"


async def test_exiting_profile_fails_every_command(session: Session, image_folder: ImageFolder) -> None:
    await session.run("echo 'echo leaving; exit 9' >~/.profile", timeout=20)
    for _ in range(2):
        result = await session.run("echo never", timeout=20)
        assert (result.exit_code, result.stdout) == (9, b"leaving\n")
    await session.run("true", timeout=20)
    (image_folder.home / ".profile").write_text("")
    await session.run("true", timeout=20)
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_hanging_profile_times_out(session: Session, image_folder: ImageFolder) -> None:
    await session.run("echo 'sleep 1000' >~/.profile", timeout=20)
    result = await session.run("echo never", timeout=1)
    assert result.timed_out and result.stdout == b""
    (image_folder.home / ".profile").write_text("")
    await session.run("true", timeout=1)
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_missing_working_directory_fails_the_command(session: Session) -> None:
    result = await session.run("echo ran", timeout=20, cwd="/no such folder")
    assert (result.exit_code, result.stdout) == (126, b"")
    assert "cannot change to the working directory /no such folder" in result.output
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_invalid_utf8_is_kept_as_bytes_and_replaced_in_text(session: Session) -> None:
    result = await session.run(r"printf '\377\376ok\000\n'", timeout=20)
    assert result.stdout == b"\xff\xfeok\0\n"
    assert result.output == "\ufffd\ufffdok\0\n"


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
async def test_short_output_of_any_byte_is_complete(session: Session, image_folder: ImageFolder, locale: str) -> None:
    image_folder.variables["LC_ALL"] = locale
    for value in (0, 1, 8, 9, 10, 13, 27, 31, 32, 37, 92, 126, 127, 128, 129, 130, 133, 136, 152, 160, 195, 255):
        byte = f"\\{value:03o}"
        each = await session.run(f"printf 'a{byte}b{byte}\\n\\n'; printf '{byte}' >&2", timeout=30)
        assert (each.stdout, each.stderr) == (b"a%cb%c\n\n" % (value, value), b"%c" % value)


async def test_short_plain_output_needs_no_program(session: Session, image_folder: ImageFolder) -> None:
    await session.open()
    for name in ("wc", "head", "tail"):
        (image_folder.path / name).unlink()
    result = await session.run("printf ' a\\\\n\\tb'; printf '%s\\n' '$x *' >&2", timeout=20)
    assert (result.stdout, result.stderr) == (b" a\\n\tb", b"$x *\n")


@pytest.mark.parametrize("size", [1999, 2000, 2001])
async def test_output_without_final_newline_is_complete(session: Session, size: int) -> None:
    result = await session.run(f"head -c {size} /dev/zero | tr '\\0' '\\\\'; echo >&2", timeout=20, max_output=2000)
    assert (result.stdout, result.stdout_bytes, result.stderr) == (b"\\" * min(size, 2000), size, b"\n")


async def test_output_through_other_descriptors_is_complete(session: Session) -> None:
    command = "echo one >/dev/stderr; echo two >>/proc/self/fd/2; printf three; printf four >>/dev/stdout"
    result = await session.run(command, timeout=20)
    assert (result.stdout, result.stderr) == (b"threefour", b"one\ntwo\n")


async def test_truncated_output_has_both_ends_and_the_true_count(session: Session) -> None:
    result = await session.run("seq 1 200000; seq 1 3 >&2", timeout=60, max_output=1001)
    expected = "".join(f"{n}\n" for n in range(1, 200_001)).encode()
    assert (result.stdout_bytes, len(result.stdout)) == (len(expected), 1001)
    assert result.stdout == expected[:501] + expected[-500:]
    assert result.stderr == b"1\n2\n3\n"
    assert f"[{len(expected) - 1001} bytes left out]" in result.output


async def test_output_at_the_limit_is_complete(session: Session) -> None:
    result = await session.run("head -c 1000 /dev/zero", timeout=20, max_output=1000)
    assert result.stdout == bytes(1000) and not result.truncated


async def test_megabyte_of_output(session: Session) -> None:
    result = await session.run("head -c 1048576 /dev/zero | tr '\\0' x", timeout=30, max_output=1 << 20)
    assert result.stdout == b"x" * (1 << 20)


async def test_daemon_with_open_outputs_does_not_delay_the_result(session: Session, image_folder: ImageFolder) -> None:
    started = time.monotonic()
    result = await session.run("(sleep 30; echo late) & echo now", timeout=25)
    assert result.stdout == b"now\n" and time.monotonic() - started < 10
    assert (await session.run("echo next", timeout=20)).stdout == b"next\n"


async def test_timeout_kills_the_command_and_keeps_its_output(session: Session) -> None:
    started = time.monotonic()
    result = await session.run("echo begun; sleep 600; echo never", timeout=3)
    assert result.timed_out and result.stdout == b"begun\n" and result.exit_code != 0
    assert time.monotonic() - started < 20
    assert (await session.run("echo on", timeout=20)).stdout == b"on\n"


async def test_kill_reaches_every_process_of_the_command(session: Session, image_folder: ImageFolder) -> None:
    inner = "trap '' TERM; while :; do sleep 1; done"
    sleep_command = f"sleep {1_000_000 + int(session.token[:6], 16)}"  # no other process sleeps as long
    await session.run(f'sh -c "{inner}" marker-{session.token} & timeout 600 {sleep_command}', timeout=3)
    count = (
        f"cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c -e '[m]arker-{session.token}' -e '[s]{sleep_command[1:]}'"
    )
    polled = f'for i in $(seq 20); do n=$({count}); [ "$n" = 0 ] && break; sleep 1; done; echo $n'
    assert (await session.run(polled, timeout=60)).stdout == b"0\n"


async def test_kill_leaves_processes_of_earlier_commands(session: Session) -> None:
    started = await session.run("sleep 300 >/dev/null 2>&1 & echo $!", timeout=20)
    assert (await session.run("sleep 600", timeout=1)).timed_out
    assert (await session.run(f"kill {int(started.stdout)}", timeout=20)).exit_code == 0


async def test_sigterm_lets_a_command_clean_up(session: Session) -> None:
    result = await session.run("trap 'echo tidy; exit 3' TERM; while :; do sleep 0.1; done", timeout=1)
    assert result.timed_out and result.exit_code == 3 and result.stdout == b"tidy\n"


async def test_interrupts_are_not_ignored(session: Session) -> None:
    result = await session.run("kill -INT $$; echo survived", timeout=20)
    assert result.exit_code == 130 and result.stdout == b""


async def test_standard_input_is_empty(session: Session) -> None:
    assert (await session.run("cat; echo end", timeout=20)).stdout == b"end\n"


async def test_many_commands_leave_few_files(session: Session, image_folder: ImageFolder) -> None:
    for n in range(70):
        assert (await session.run(f"echo {n}", timeout=20, login=False)).stdout == f"{n}\n".encode()
    [folder], [notes] = image_folder.state(session), image_folder.memory_folders(session)
    assert len([*folder.iterdir(), *notes.iterdir()]) < 250
    assert sum(path.stat().st_size for path in folder.glob("*.out")) < 10


async def test_commands_of_one_session_run_one_after_the_other(session: Session) -> None:
    texts = [f"echo {n}; sleep 0.05; echo {n}" for n in range(5)]
    results = await asyncio.gather(*(session.run(text, timeout=20, login=False) for text in texts))
    assert [result.stdout for result in results] == [f"{n}\n{n}\n".encode() for n in range(5)]


async def test_nul_byte_raises_before_anything_is_sent(session: Session) -> None:
    with pytest.raises(ValueError, match="NUL"):
        await session.run("echo \0", timeout=20)


async def test_files_are_written_and_read_unchanged(session: Session, tmp_path: Path) -> None:
    data = bytes(range(256)) * 10_000
    target = tmp_path / "new folder" / "file"
    await session.write_file(str(target), data, mode=0o755)
    assert target.read_bytes() == data and target.stat().st_mode & 0o777 == 0o755
    assert await session.read_file(str(target)) == data
    await session.write_file(str(target), b"")
    assert await session.read_file(str(target)) == b""


async def test_file_errors_name_the_cause(session: Session, tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match="cannot read /nowhere: it does not exist"):
        await session.read_file("/nowhere")
    with pytest.raises(PathIsDirectory, match=r"cannot write .* it is a directory"):
        await session.write_file(str(tmp_path), b"x")
    (tmp_path / "big").write_bytes(bytes(100))
    with pytest.raises(FileTooLarge, match="has 100 bytes; the limit is 99"):
        await session.read_file(str(tmp_path / "big"), limit=99)


def digests(image_folder: ImageFolder, first: str) -> None:
    """Give the image a sha256sum that does `first`."""
    (image_folder.home / ".profile").write_text(
        f"PATH={image_folder.path}\n"
    )  # /etc/profile of this machine has its own programs
    (image_folder.path / "sha256sum").unlink()
    (image_folder.path / "sha256sum").write_text(f'#!/bin/sh\n{first}\nexec {shutil.which("sha256sum")} "$@"\n')
    (image_folder.path / "sha256sum").chmod(0o755)


async def test_damaged_file_is_fetched_again(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    digests(image_folder, f"[ -e {tmp_path}/sent ] || {{ : >{tmp_path}/sent; printf '%064d  -\\n' 0; exit; }}")
    (tmp_path / "file").write_bytes(b"content")
    assert await session.read_file(str(tmp_path / "file")) == b"content"
    assert (tmp_path / "sent").exists()


async def test_file_that_stays_damaged_raises(session: Session, image_folder: ImageFolder, tmp_path: Path) -> None:
    digests(image_folder, "printf '%064d  -\\n' 0; exit")
    (tmp_path / "file").write_bytes(b"content")
    with pytest.raises(TransferFailed, match="7 bytes arrived damaged 3 times"):
        await session.read_file(str(tmp_path / "file"))


async def test_without_sha256sum_file_bytes_are_counted(
    session: Session, image_folder: ImageFolder, tmp_path: Path
) -> None:
    (image_folder.home / ".profile").write_text(f"PATH={image_folder.path}\n")
    (image_folder.path / "sha256sum").unlink()
    await session.write_file(str(tmp_path / "file"), b"content")
    assert await session.read_file(str(tmp_path / "file")) == b"content"
