"""The probe of a sandbox's isolation, with each of the programs an image may have to open connections."""

from __future__ import annotations

import asyncio
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
from swerl_api.isolation import NO_TOOL, SCRIPT

from tests.unit.agent.sandbox.conftest import BUSYBOX

PROGRAMS = {"bash": shutil.which("bash"), "python3": str(Path(sys.executable).resolve()), "nc": BUSYBOX}
NEIGHBOURS = """\
IP address       HW type     Flags       HW address            Mask     Device
10.244.0.1       0x1         0x2         c2:1b:05:0a:ff:10     *        lo
"""
NODE_ADDRESS = "fe80::c01b:05ff:fe0a:ff10"  # by the hardware address of the neighbour
NODE = f"""\
import os, socket, subprocess, sys
ip = "{shutil.which("ip")}"
subprocess.run([ip, "link", "set", "lo", "up"], check=True)
subprocess.run([ip, "address", "add", "{NODE_ADDRESS}/64", "dev", "lo", "nodad"], check=True)
listening = socket.create_server(("{NODE_ADDRESS}", 6443, 0, socket.if_nametoindex("lo")), family=socket.AF_INET6)
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
NAME_SERVER = f"""\
import socket, subprocess, sys
subprocess.run(["{shutil.which("ip")}", "link", "set", "lo", "up"], check=True)
listening = socket.create_server(("127.0.0.9", 53))
sys.exit(subprocess.run(sys.argv[1:]).returncode)
"""
BESIDE_NODE = [str(shutil.which("unshare")), "--net", sys.executable, "-c", NODE]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The programs of an image that cannot open any connection."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for tool in ("sh", "head", "wc", "grep", "sleep", "printf"):
        (folder / tool).symlink_to(BUSYBOX)
    return folder


@pytest.fixture(params=PROGRAMS)
def tool(request: pytest.FixtureRequest, image: Path) -> str:
    """The one program of the image that can."""
    name = str(request.param)
    program = PROGRAMS[name]
    assert program, f"this test needs {name}"
    (image / name).symlink_to(program)
    return name


async def probed(
    image: Path, *targets: str, script: str = SCRIPT, within: Sequence[str] = (), egress: str = "none"
) -> tuple[int, list[str]]:
    """Exit code and lines of the probe in `image`, in the shell that a session takes; `within`: run by this command."""
    shell = next(path for path in (image / "bash", image / "sh") if path.exists())
    command = [*within, str(shell), "-c", script, "probe", "1", "6443", egress, *targets]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env={"PATH": str(image)})
    output, _ = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode is not None
    return process.returncode, output.decode().splitlines()


class Names(asyncio.DatagramProtocol):
    """A name server that answers something to a whole question."""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        if len(data) > 12 and data.endswith(b"\0\0\1\0\1"):
            self._transport.sendto(data[:2] + b"\x81\x80", address)


@pytest.fixture
async def names() -> AsyncIterator[int]:
    """Port of a name server."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Names, local_addr=("127.0.0.1", 0))
    yield transport.get_extra_info("sockname")[1]
    transport.close()


@pytest.fixture
def ports() -> Iterator[tuple[int, int, int]]:
    """A TCP port that listens, one that does not, and a UDP port that never answers."""
    with socket.socket() as listening, socket.socket() as closed, socket.socket(type=socket.SOCK_DGRAM) as silent:
        for bound in (listening, closed, silent):
            bound.bind(("127.0.0.1", 0))
        listening.listen()
        yield tuple(bound.getsockname()[1] for bound in (listening, closed, silent))  # type: ignore[misc]


async def test_probe_reports_only_targets_that_answer(
    image: Path, tool: str, ports: tuple[int, int, int], names: int
) -> None:
    listening, closed, silent = ports
    others = [f"tcp 127.0.0.1 {listening}", f"tcp 127.0.0.1 {closed}", f"dns 127.0.0.1 {silent}"]
    named = f"dns 127.0.0.1 {names}"
    started = time.monotonic()
    code, reached = await probed(image, *others, named)
    answers = {others[0]} if tool == "nc" else {others[0], named}  # its UDP says nothing about an answer
    assert code == 0 and {*others, named} & {*reached} == answers
    assert time.monotonic() - started < 10, "what does not answer is not waited for"


async def test_interpreter_may_start_slowly(image: Path, ports: tuple[int, int, int]) -> None:
    listening = f"tcp 127.0.0.1 {ports[0]}"
    (image / "python3").write_text(f'#!{BUSYBOX} sh\nsleep 2\nexec {PROGRAMS["python3"]} "$@"\n')
    (image / "python3").chmod(0o755)
    code, reached = await probed(image, listening)
    assert code == 0 and listening in reached


async def test_busy_node_gets_more_time(image: Path, ports: tuple[int, int, int]) -> None:
    (image / "nc").write_text(f'#!{BUSYBOX} sh\nsleep 0.3\nexec {BUSYBOX} nc "$@"\n')
    (image / "nc").chmod(0o755)
    listening = f"tcp 127.0.0.1 {ports[0]}"
    code, reached = await probed(image, listening)
    assert code == 0 and listening in reached, "the shortest wait would have ended before its connection"


@pytest.mark.usefixtures("tool")
async def test_node_is_tried_by_its_link_local_address(image: Path, tmp_path: Path) -> None:
    (tmp_path / "arp").write_text(NEIGHBOURS)
    script = SCRIPT.replace("/proc/net/arp", str(tmp_path / "arp"))
    code, reached = await probed(image, script=script, within=BESIDE_NODE)
    assert code == 0 and f"tcp {NODE_ADDRESS}%lo 6443" in reached


@pytest.mark.parametrize(("egress", "tried"), [("none", True), ("internet", False)])
async def test_name_servers_of_a_pod_with_public_addresses_are_not_tried(
    image: Path, tmp_path: Path, egress: str, tried: bool
) -> None:
    (image / "bash").symlink_to(PROGRAMS["bash"] or "")
    (tmp_path / "resolv.conf").write_text("nameserver 127.0.0.9\n")
    script = SCRIPT.replace("/etc/resolv.conf", str(tmp_path / "resolv.conf"))
    within = [str(shutil.which("unshare")), "--net", sys.executable, "-c", NAME_SERVER]
    _, reached = await probed(image, script=script, within=within, egress=egress)
    assert ("tcp 127.0.0.9 53" in reached) is tried


async def test_image_without_a_connection_tool_is_reported(image: Path) -> None:
    assert (await probed(image))[0] == NO_TOOL
