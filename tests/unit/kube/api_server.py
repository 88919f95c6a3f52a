"""An API server that answers every request with an empty object and records who asked."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web


class ApiServer:
    """`accepted`: Authorization headers that get an answer other than 401; None accepts all."""

    def __init__(self, tls: ssl.SSLContext | None = None, accepted: set[str] | None = None) -> None:
        self._tls, self._accepted = tls, accepted
        self.authorizations: list[str] = []  # Authorization header of each request
        self.impersonations: list[list[tuple[str, str]]] = []  # Impersonate- headers of each request
        self.certificates: list[bool] = []  # whether each request came with a client certificate
        self.port = 0

    async def __aenter__(self) -> Self:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.authorizations.append(authorization)
        found = [(name, value) for name, value in request.headers.items() if name.startswith("Impersonate-")]
        self.impersonations.append(found)
        self.certificates.append(bool(request.transport and request.transport.get_extra_info("peercert")))
        if self._accepted is not None and authorization not in self._accepted:
            return web.json_response({"kind": "Status", "reason": "Unauthorized", "message": "who?"}, status=401)
        return web.json_response({"metadata": {"name": "x"}, "items": []})


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A self-signed certificate for the host `name`, and its key."""
    pem, key = folder / f"{name}.pem", folder / f"{name}.key"
    subject = ("-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}")
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    command = ("openssl", "req", "-x509", "-days", "1", *curve, *subject, "-keyout", str(key), "-out", str(pem))
    subprocess.run(command, check=True, capture_output=True)
    return pem, key


def server_tls(pem: Path, key: Path, *, clients: Path | None = None) -> ssl.SSLContext:
    """TLS of a server with this certificate; it demands client certificates signed by `clients`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem, key)
    if clients is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(clients)
    return context
