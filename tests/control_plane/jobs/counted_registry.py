"""The cluster's registry under another name, with every request that a node makes counted and timed.

Needs the local cluster: its containerd reads where a registry is from a folder of this machine, at every pull.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import os
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from cluster import layout

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
Request = tuple[float, str, str]  # seconds, method, path


class CountedRegistry:
    """Images of its repository are those of the cluster's own registry; `requests` are those that came through here."""

    def __init__(self, name: str) -> None:
        self.name, self.repository = name, f"counted-{os.getpid()}"
        self.requests: list[Request] = []

    def push(self, tag: str) -> str:
        """A small image as Docker Hub has them, an index over one manifest, unlike all others; its reference."""
        layer = _layer(f"{self.repository} {tag}")
        packed = gzip.compress(layer, mtime=0)
        diff = {"type": "layers", "diff_ids": [_digest(layer)]}
        config = json.dumps({"architecture": "amd64", "os": "linux", "rootfs": diff}).encode()
        described = {"config": _entry(CONFIG, config), "layers": [_entry(LAYER, packed)]}
        manifest = json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, **described}).encode()
        platform = {"platform": {"architecture": "amd64", "os": "linux"}}
        entries = {"manifests": [_entry(MANIFEST, manifest) | platform]}
        index = json.dumps({"schemaVersion": 2, "mediaType": INDEX, **entries}).encode()
        for blob in (config, packed):
            self._upload(blob)
        self._put(_digest(manifest), manifest, MANIFEST)
        self._put(tag, index, INDEX)
        return self.reference(tag)

    def reference(self, tag: str) -> str:
        return f"{self.name}/{self.repository}:{tag}"

    def most_in_a_minute(self, part: str) -> int:
        """Requests with `part` in their path, in the minute with the most of them."""
        times = sorted(when for when, _, path in self.requests if part in path)
        return max((sum(begin <= time_ < begin + 60 for time_ in times) for begin in times), default=0)

    def _upload(self, blob: bytes) -> None:
        _, location = _call("POST", f"/v2/{self.repository}/blobs/uploads/")
        path = location.removeprefix(f"http://{layout.registry()}")
        _call("PUT", f"{path}{'&' if '?' in path else '?'}digest={_digest(blob)}", blob, "application/octet-stream")

    def _put(self, name: str, content: bytes, media: str) -> None:
        _call("PUT", f"/v2/{self.repository}/manifests/{name}", content, media)


@contextmanager
def counted_registry(name: str) -> Iterator[CountedRegistry]:
    """The registry `name`, as long as the context lasts."""
    cluster = layout.find(layout.cluster_name(), layout.swerl_home())
    assert cluster is not None, "the local cluster is needed: `make cluster`"
    registry = CountedRegistry(name)
    server = ThreadingHTTPServer((cluster.host_ip, 0), _front(registry.requests))
    thread = Thread(target=server.serve_forever)
    thread.start()
    hosts = cluster.state / "certs.d" / name / "hosts.toml"
    hosts.parent.mkdir(parents=True)
    hosts.write_text(f'server = "http://{cluster.host_ip}:{server.server_port}"\n')
    try:
        yield registry
    finally:
        _remove(hosts)
        server.shutdown()
        thread.join(10)
        server.server_close()


def _remove(hosts: Path) -> None:
    hosts.unlink()
    hosts.parent.rmdir()


def _front(requests: list[Request]) -> type[BaseHTTPRequestHandler]:
    """Passes what nodes ask for on to the cluster's registry."""

    class RequestHandler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            requests.append((time.monotonic(), self.command, self.path))
            connection = http.client.HTTPConnection(layout.registry(), timeout=60)
            kept = {key: value for key, value in self.headers.items() if key in ("Accept", "Range")}
            connection.request(self.command, self.path, headers=kept)
            answer = connection.getresponse()
            body = answer.read()
            self.send_response(answer.status)
            for key, value in answer.getheaders():
                if key in ("Content-Type", "Content-Length", "Docker-Content-Digest", "Content-Range"):
                    self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)
            connection.close()

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None: ...

    return RequestHandler


def _call(method: str, path: str, body: bytes | None = None, media: str = "") -> tuple[bytes, str]:
    """Answer of the cluster's registry, and the place that it names."""
    headers = {"Content-Type": media} if media else {}
    request = urllib.request.Request(f"http://{layout.registry()}{path}", data=body, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read(), str(answer.headers.get("Location") or "")


def _entry(media: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media, "digest": _digest(content), "size": len(content)}


def _layer(text: str) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        entry = tarfile.TarInfo("says")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text.encode()))
    return output.getvalue()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
