"""A mutating webhook that adds a container to Pods, as a service mesh does, but before theirs.

Its arguments as a program, which runs in the network namespace of the API server: the port, a file with key and
certificate, the container as JSON. In a Pod with the label UNREADY the container never becomes ready.
"""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.control_plane import pod_network
from tests.ports import free_port

Json = dict[str, Any]
UNREADY = "swerl.dev/unready"  # a SweSandbox gives its Pods labels of this domain alone
KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


def patch(pod: Json, container: Json) -> list[Json]:
    """The JSON patch that adds `container` as the first one of `pod`."""
    if UNREADY in pod["metadata"].get("labels", {}):
        container = container | {"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}
    return [{"op": "add", "path": "/spec/containers/0", "value": container}]


@contextmanager
def injecting_webhook(api_server: Path, folder: Path, container: Json) -> Iterator[Json]:
    """The webhook in network namespace `api_server`, and the `clientConfig` that leads there."""
    certificate = folder / "webhook.pem"
    subject = ("-subj", "/CN=webhook", "-addext", "subjectAltName=IP:127.0.0.1")
    command = ["openssl", "req", "-x509", *KEY, *subject, "-keyout", str(folder / "key.pem"), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    authority = certificate.read_bytes()
    certificate.write_bytes((folder / "key.pem").read_bytes() + authority)
    port = free_port()
    program = [sys.executable, "-m", __name__, str(port), str(certificate), json.dumps(container)]
    with subprocess.Popen(pod_network.command(api_server, *program), stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"listening\n"
            yield {"url": f"https://127.0.0.1:{port}/", "caBundle": base64.b64encode(authority).decode()}
        finally:
            process.kill()


def main(port: str, certificate: str, container: str) -> None:
    """Serve until killed."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            changes = json.dumps(patch(request["object"], json.loads(container))).encode()
            answer = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
            answer["patch"] = base64.b64encode(changes).decode()
            body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    print("listening", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
