"""Another user of the cluster: small requests in a namespace of its own, one after the other, each timed.

It runs as a process of its own under a ServiceAccount of its own, so that neither the bench's event loop nor an
administrator's precedence at the API server stands between the request and its time.
"""

from __future__ import annotations

import base64
import http.client
import json
import multiprocessing
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from urllib.parse import urlsplit

from swerl_kube import KubeClient

from demo.cluster import DemoCluster

NAME = "neighbour"
PAUSE = 0.05  # seconds between two requests
REQUESTS = (("GET", f"/{NAME}"), ("GET", "?limit=10"), ("PATCH", f"/{NAME}"))


class Prober:
    """Seconds of every request so far, once `stop` was called."""

    def __init__(self, server: str, authority: str, token: str, namespace: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        self._process = context.Process(target=_probe, args=(server, authority, token, path, theirs), daemon=True)
        self._process.start()

    def stop(self) -> list[float]:
        """End it; its times in seconds."""
        self._ours.send("stop")
        times: list[float] = self._ours.recv()
        self._process.join(timeout=10)
        return times


@contextmanager
def probed_pod(cluster: DemoCluster, namespace: str) -> Iterator[Prober]:
    """A prober with rights on ConfigMaps of `namespace` only; it must be stopped within the context."""
    account, role = f"system:serviceaccount:{namespace}:{NAME}", f"{namespace}-{NAME}"
    cluster.kubectl("create", "namespace", namespace)
    try:
        at = ("-n", namespace)
        cluster.kubectl("create", "serviceaccount", NAME, *at)
        cluster.kubectl("create", "configmap", NAME, "--from-literal=a=b", *at)
        cluster.kubectl("create", "role", role, "--verb=get,list,patch", "--resource=configmaps", *at)
        cluster.kubectl("create", "rolebinding", role, f"--role={role}", f"--user={account}", *at)
        token = cluster.kubectl("create", "token", NAME, "--duration=6h", *at).strip()
        server = KubeClient.from_environment(str(cluster.kubeconfig)).server
        yield Prober(server, _authority(cluster), token, namespace)
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")


def _authority(cluster: DemoCluster) -> str:
    """The certificate that signs the API server's, as PEM."""
    view = json.loads(cluster.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    return base64.b64decode(view["clusters"][0]["cluster"]["certificate-authority-data"]).decode()


def _probe(server: str, authority: str, token: str, path: str, control: Connection) -> None:
    times: list[float] = []
    address = urlsplit(server)
    tls = ssl.create_default_context(cadata=authority)
    connection = http.client.HTTPSConnection(address.hostname or "", address.port or 443, timeout=60, context=tls)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    number = 0
    while not control.poll(PAUSE):
        method, where = REQUESTS[number % len(REQUESTS)]
        body = json.dumps({"data": {"a": str(number)}}) if method == "PATCH" else None
        started = time.perf_counter()
        connection.request(method, path + where, body, headers)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, f"{method} {path}{where}: {answer.status}"
        times.append(time.perf_counter() - started)
        number += 1
    control.send(times)
