"""Images of static programs, written straight into a registry (OCI distribution and image specifications, v1).

Guarantees: the same files give the same digest; an image that the registry has is not sent again.
"""

import gzip
import hashlib
import http.client
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from cluster.errors import ClusterError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Registry:
    """A registry at `http://127.0.0.1:<port>`."""

    def __init__(self, port: int) -> None:
        self._port = port

    def serves(self) -> bool:
        return self._request("GET", "/v2/")[0] == 200

    def has(self, repository: str, tag: str) -> bool:
        status, _, _ = self._request("HEAD", f"/v2/{repository}/manifests/{tag}", headers={"Accept": _MANIFEST})
        return status == 200

    def push_programs(self, repository: str, tag: str, files: Mapping[str, Path], entrypoint: list[str]) -> None:
        """Pushes an image with `files` (path in the image -> file), mode 0755, that runs `entrypoint` as user 65532."""
        layer = _tar(files)
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        config = json.dumps(
            {
                "architecture": _ARCHITECTURES[platform.machine()],
                "os": "linux",
                "config": {"Entrypoint": entrypoint, "User": "65532:65532", "Env": ["PATH=/"], "WorkingDir": "/"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": {"mediaType": _CONFIG, "digest": _digest(config), "size": len(config)},
                "layers": [{"mediaType": _LAYER, "digest": _digest(packed), "size": len(packed)}],
            }
        ).encode()
        for blob in (config, packed):
            self._push_blob(repository, blob)
        self._expect(201, "PUT", f"/v2/{repository}/manifests/{tag}", manifest, {"Content-Type": _MANIFEST})

    def _push_blob(self, repository: str, blob: bytes) -> None:
        if self._request("HEAD", f"/v2/{repository}/blobs/{_digest(blob)}")[0] == 200:
            return
        headers = self._expect(202, "POST", f"/v2/{repository}/blobs/uploads/")
        location = urlsplit(headers["location"])
        target = f"{location.path}?{location.query}{'&' if location.query else ''}digest={_digest(blob)}"
        self._expect(201, "PUT", target, blob, {"Content-Type": "application/octet-stream"})

    def _expect(
        self, status: int, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        found, response_headers, text = self._request(method, path, body, headers)
        if found != status:
            where = f"registry 127.0.0.1:{self._port}: {method} {path}"
            raise ClusterError(f"{where} gave {found}, not {status}: {text[:300]!r}")
        return response_headers

    def _request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            connection.request(method, path, body=body or None, headers=dict(headers or {}))
            response = connection.getresponse()
            return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read()
        finally:
            connection.close()


def _tar(files: Mapping[str, Path]) -> bytes:
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for name, path in sorted(files.items()):
            content = path.read_bytes()
            entry = tarfile.TarInfo(name.lstrip("/"))
            entry.mode, entry.size = 0o755, len(content)
            archive.addfile(entry, io.BytesIO(content))
    return output.getvalue()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
