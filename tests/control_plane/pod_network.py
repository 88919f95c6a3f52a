"""The network namespace of a local cluster's Pod, and machines on a link of their own with it. Needs root.

Such a link is one more interface of the Pod, which the cluster's network does not manage: nothing that other tests
share is touched, and what is reached over it was not blocked by the Pod's own kernel.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ACCEPTS = """
import socket, sys
server = socket.create_server(("::", int(sys.argv[1])), family=socket.AF_INET6, dualstack_ipv6=True)
print("listening", flush=True)
while True:
    server.accept()[0].close()
"""
CONNECT_SCRIPT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 20).close()"


def pod_namespace(uid: str) -> Path:
    """The network namespace of the Pod, by one of its processes."""
    for groups in Path("/proc").glob("[0-9]*/cgroup"):
        try:
            if f"pod{uid}" in groups.read_text():
                return groups.parent / "ns" / "net"
        except OSError:  # it has ended meanwhile
            continue
    raise AssertionError(f"no process of Pod {uid} on this machine")


def command(namespace: Path, *program: str) -> list[str]:
    """The command that runs the program in a network namespace."""
    return ["nsenter", f"--net={namespace}", *program]


def inside(namespace: Path, *program: str) -> str:
    """Output of a program in a network namespace."""
    return _run(*command(namespace, *program))


def connect(namespace: Path, host: str, port: int) -> None:
    """Open a connection from there and close it; fails when that is impossible."""
    inside(namespace, sys.executable, "-c", CONNECT_SCRIPT, host, str(port))


@contextmanager
def listener(namespace: Path, port: int) -> Iterator[None]:
    """A listener on every address of the namespace, IPv6 and IPv4."""
    program = command(namespace, sys.executable, "-c", ACCEPTS, str(port))
    with subprocess.Popen(program, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"listening\n"
            yield
        finally:
            process.kill()


@contextmanager
def link(pod: Path, peer: Path, name: str) -> Iterator[str]:
    """An interface `name` in both namespaces, joined to each other, with IPv6; the link-local address of `other`."""
    ends = [f"t{os.getpid()}{side}" for side in "ab"]
    _run("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
    try:
        for end, namespace in zip(ends, (pod, peer), strict=True):
            _move(end, namespace, name)
        yield link_local(hardware(peer, name))
    finally:
        subprocess.run(["ip", "link", "delete", ends[0]], capture_output=True)  # where it was not moved
        subprocess.run(["nsenter", f"--net={peer}", "ip", "link", "delete", name], capture_output=True)


@contextmanager
def machine() -> Iterator[Path]:
    """A network namespace of its own."""
    name = f"test-{os.getpid()}-{os.urandom(2).hex()}"
    _run("ip", "netns", "add", name)
    try:
        namespace = Path("/run/netns") / name
        inside(namespace, "ip", "link", "set", "lo", "up")
        yield namespace
    finally:
        _run("ip", "netns", "delete", name)


def enable_ipv6(namespace: Path, device: str) -> None:
    """The link-local address that follows from the hardware address; no other interface on the link has it."""
    settings = {"accept_dad": 0, "addr_gen_mode": 0, "disable_ipv6": 0}
    inside(namespace, "sysctl", "-qw", *(f"net.ipv6.conf.{device}.{name}={value}" for name, value in settings.items()))


def hardware(namespace: Path, device: str) -> str:
    """The device's hardware address."""
    found = re.search(r"link/ether (\S+)", inside(namespace, "ip", "-o", "link", "show", device))
    assert found is not None
    return found[1]


def link_local(address: str) -> str:
    """What a hardware address implies (RFC 4291, appendix A), as people write it."""
    octets = [int(octet, 16) for octet in address.split(":")]
    octets[0] ^= 2
    groups = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
    return "fe80::" + ":".join(f"{groups[i] << 8 | groups[i + 1]:x}" for i in range(0, 8, 2))


def _move(end: str, namespace: Path, name: str) -> None:
    holder = namespace.parts[2] if namespace.parts[1] == "proc" else namespace.name
    _run("ip", "link", "set", end, "netns", holder, "name", name)
    enable_ipv6(namespace, name)
    inside(namespace, "ip", "link", "set", name, "up")


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
