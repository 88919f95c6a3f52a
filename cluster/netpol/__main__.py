"""The enforcer's process: `python3 -m cluster.netpol --server URL --pki DIR ...`, in the node's network namespace."""

import argparse
import json
import queue
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cluster.api import ApiClient
from cluster.layout import NODE_NAME
from cluster.netpol import objects
from cluster.netpol.objects import ObservedObjects
from cluster.netpol.rules import PolicyScope, Rules, render
from cluster.watch import Changed, Key, Listed, ObjectWatch

_KINDS = {
    "pods": (f"/api/v1/pods?fieldSelector=spec.nodeName%3D{NODE_NAME}", objects.pod),  # another node's are not ours
    "namespaces": ("/api/v1/namespaces", objects.namespace),
    "policies": ("/apis/networking.k8s.io/v1/networkpolicies", objects.policy),
}
_GATE_TIMEOUT = 2.0  # seconds that a Pod's first packet may wait for the rules that admit it


@dataclass
class Request:
    """Message of the CNI chain: an address was assigned to a Pod (`add`) or released (`del`)."""

    verb: str
    address: str
    key: Key
    uid: str
    deadline: float
    done: threading.Event = field(default_factory=threading.Event)


class Enforcer:
    """Turns events into rules; one thread owns the observed objects."""

    def __init__(self, scope: PolicyScope) -> None:
        self._scope, self._observed = scope, ObservedObjects()
        self._applied: Rules | None = None  # None: unknown, so the next change replaces the whole table
        self._waiting: list[Request] = []
        self.events: queue.Queue[Listed | Changed | Request] = queue.Queue()

    def run(self) -> None:
        while True:
            batch = [self.events.get()]
            while not self.events.empty():
                batch.append(self.events.get())
            changes = [self._handle(event) for event in batch]
            if any(changes) and self._observed.complete:
                self._enforce()
            self._complete_requests()

    def _handle(self, event: Listed | Changed | Request) -> bool:
        """True when the observed objects changed."""
        if isinstance(event, Request):
            self._waiting.append(event)
            if event.verb == "add":
                self._observed.assigned[event.address] = (event.key, event.uid)
            else:
                self._observed.assigned.pop(event.address, None)
            return True
        if isinstance(event, Listed):
            setattr(self._observed, event.kind, event.objects)
            return True
        known: dict[Key, Any] = getattr(self._observed, event.kind)
        before = known.get(event.key)
        if event.value is None:
            known.pop(event.key, None)
        else:
            known[event.key] = event.value
        return bool(before != event.value)

    def _enforce(self) -> None:
        start, rules = time.monotonic(), render(self._observed, self._scope.families)
        if rules == self._applied:
            return
        change = rules.change_from(self._applied) if self._applied else None
        done = _nft(rules.table(self._scope) if change is None else change)
        if done.returncode and change is not None:
            done = _nft(rules.table(self._scope))
        self._applied = rules if done.returncode == 0 else None
        milliseconds = round(1e3 * (time.monotonic() - start), 1)
        print(
            json.dumps(
                {
                    "pods": len(rules.known),
                    "isolated": len(rules.egress),
                    "whole": change is None,
                    "ms": milliseconds,
                    "error": done.stderr[:400],
                }
            ),
            flush=True,
        )

    def _complete_requests(self) -> None:
        for request in list(self._waiting):
            known = self._applied is not None and request.address in self._applied.known
            if request.verb == "del" or known or time.monotonic() > request.deadline:
                self._waiting.remove(request)
                request.done.set()


class Gate(threading.Thread):
    """Unix socket on which the CNI chain announces addresses; one JSON line each way."""

    def __init__(self, path: Path, events: "queue.Queue[Any]") -> None:
        super().__init__(daemon=True, name="gate")
        path.unlink(missing_ok=True)
        self._events, self._server = events, socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(256)

    def run(self) -> None:
        while True:
            connection, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(5)
            try:
                message = json.loads(connection.makefile("rb").readline())
                request = Request(
                    message["verb"],
                    message["address"],
                    (message["namespace"], message["name"]),
                    message["uid"],
                    time.monotonic() + _GATE_TIMEOUT,
                )
                self._events.put(request)
                request.done.wait(_GATE_TIMEOUT)
                connection.sendall(json.dumps({"enforced": request.done.is_set()}).encode() + b"\n")
            except (OSError, ValueError, KeyError) as error:
                print(f"gate: {error}", file=sys.stderr, flush=True)


def _nft(text: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["nft", "-f", "-"], input=text, text=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="cluster.netpol", description="NetworkPolicy enforcer of one node")
    for flag in ("--server", "--pki", "--socket", "--pod-cidr", "--host-ip", "--uplink"):
        parser.add_argument(flag, required=True)
    options = parser.parse_args()
    enforcer = Enforcer(
        PolicyScope(tuple(options.pod_cidr.split(",")), tuple(options.host_ip.split(",")), options.uplink)
    )
    api = ApiClient(options.server, Path(options.pki), "netpol")
    for kind, (path, parse) in _KINDS.items():
        ObjectWatch(api, kind, path, parse, enforcer.events).start()
    Gate(Path(options.socket), enforcer.events).start()
    enforcer.run()


if __name__ == "__main__":
    main()
