"""The few API calls that the cluster's own programs make, over the standard library."""

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from cluster.errors import ClusterError


class Unreachable(ClusterError):
    """The apiserver does not answer, or not with success."""


class ApiClient:
    """One apiserver, authenticated by a client certificate from the cluster's pki folder."""

    def __init__(self, server: str, pki: Path, user: str = "admin") -> None:
        address = urlsplit(server)
        self._host, self._port = address.hostname or "", address.port or 443
        self._tls = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        self._tls.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")

    def get(self, path: str, *, timeout: float = 5.0) -> dict[str, Any]:
        """The object at `path`; raises Unreachable."""
        document: dict[str, Any] = json.loads(self.text(path, timeout=timeout))
        return document

    def text(self, path: str, *, timeout: float = 5.0) -> str:
        connection = self._connect(timeout)
        try:
            return self._response(connection, path).read().decode()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"apiserver {self._host}:{self._port}: {error}") from error
        finally:
            connection.close()

    def send(self, method: str, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 10.0) -> int:
        """The status of a write; 409 (there is one already) and 404 (gone) are answers. Raises Unreachable."""
        connection = self._connect(timeout)
        try:
            connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"apiserver {self._host}:{self._port}: {error}") from error
        finally:
            connection.close()
        if response.status >= 300 and response.status not in (404, 409):
            raise Unreachable(f"apiserver: {method} {path} gave {response.status}: {text[:300]}")
        return response.status

    def lines(self, path: str, parameters: dict[str, str], *, timeout: float) -> Iterator[bytes]:
        """Lines of a stream until the server ends it; raises Unreachable, also after `timeout` s of silence."""
        connection = self._connect(timeout)
        try:
            yield from self._response(connection, f"{path}{'&' if '?' in path else '?'}{urlencode(parameters)}")
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"apiserver {self._host}:{self._port}: {error}") from error
        finally:
            connection.close()

    def _connect(self, timeout: float) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, self._port, context=self._tls, timeout=timeout)

    def _response(self, connection: http.client.HTTPSConnection, path: str) -> http.client.HTTPResponse:
        connection.request("GET", path)
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(300).decode(errors="replace")
            raise Unreachable(f"apiserver: GET {path} gave {response.status}: {text}")
        return response
