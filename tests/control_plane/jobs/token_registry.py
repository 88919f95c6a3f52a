"""A real registry that serves the images of the cluster's own to those alone that a token server lets in."""

from __future__ import annotations

import base64
import datetime
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from cluster import layout
from tests.ports import free_port

ISSUER, SERVICE = "test-issuer", "test-registry"


class TokenServer:
    """Grants pulls without a login and with the right one."""

    def __init__(self, login: str) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.certificate = _self_signed(self._key)
        self._login = "Basic " + base64.b64encode(login.encode()).decode()

    def answer(self, query: dict[str, list[str]], authorization: str | None) -> dict[str, Any]:
        kind, name, _ = query["scope"][0].split(":")
        granted = [{"type": kind, "name": name, "actions": ["pull"]}]
        return {"token": self._signed(granted if authorization in (None, self._login) else [])}

    def _signed(self, access: list[dict[str, Any]]) -> str:
        now = int(time.time())
        claims = {"iss": ISSUER, "sub": "", "aud": SERVICE, "exp": now + 300, "nbf": now - 10, "iat": now, "jti": "1"}
        chain = [base64.b64encode(self.certificate.public_bytes(Encoding.DER)).decode()]
        head = _encoded(json.dumps({"typ": "JWT", "alg": "RS256", "x5c": chain}).encode())
        body = _encoded(json.dumps({**claims, "access": access}).encode())
        signature = self._key.sign(f"{head}.{body}".encode(), padding.PKCS1v15(), SHA256())
        return f"{head}.{body}.{_encoded(signature)}"


@contextmanager
def token_registry(folder: Path, login: str) -> Iterator[str]:
    """Its host and port, as long as the context lasts; its images are those of the cluster's registry."""
    tokens = TokenServer(login)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _front(tokens))
    thread = Thread(target=server.serve_forever)
    thread.start()
    certificate, config, port = folder / "issuer.pem", folder / "registry.yml", free_port()
    certificate.write_bytes(tokens.certificate.public_bytes(Encoding.PEM))
    realm = f"http://127.0.0.1:{server.server_port}/token"
    token = {"realm": realm, "service": SERVICE, "issuer": ISSUER, "rootcertbundle": str(certificate)}
    storage = {"filesystem": {"rootdirectory": str(layout.swerl_home() / "registry")}}
    storage["maintenance"] = {"readonly": {"enabled": True}}  # type: ignore[dict-item]
    content = {"version": 0.1, "log": {"level": "error"}, "storage": storage, "http": {"addr": f"127.0.0.1:{port}"}}
    config.write_text(json.dumps({**content, "auth": {"token": token}}))
    process = subprocess.Popen(["docker-registry", "serve", str(config)])
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)
        server.shutdown()
        thread.join(10)
        server.server_close()


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with suppress(OSError):
            urllib.request.urlopen(url, timeout=5)
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} did not answer within 30 s")


def _front(tokens: TokenServer) -> type[BaseHTTPRequestHandler]:
    class RequestHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = tokens.answer(parse_qs(urlsplit(self.path).query), self.headers["Authorization"])
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *args: object) -> None: ...

    return RequestHandler


def _self_signed(key: rsa.RSAPrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=5))
    return builder.not_valid_after(now + datetime.timedelta(hours=1)).sign(key, SHA256())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
