"""Copies files and folders between this machine and a running sandbox, over one exec stream.

Guarantees: a copy that was cut short is an error, and a download leaves nothing under its name; a member of an archive
that would lie outside of the target is left out and named; a sandbox cannot send more than FOLDER_LIMIT. Folders need
`tar` in the sandbox's image.
"""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

from swerl_api.names import SANDBOX_CONTAINER
from swerl_kube import KubeClient
from swerl_kube.exec import STDOUT

from .errors import FileError, HandshakeFailed
from .folders import FOLDER_LIMIT, unpack

_DOWNLOAD = 'if [ -d "$1" ]; then echo folder && tar -c -C "$1" .; else echo file && cat -- "$1"; fi'
_UPLOAD_FILE = 'mkdir -p "$(dirname -- "$2")" && head -c "$1" >"$2"'
_UPLOAD_FOLDER = 'mkdir -p "$2" && head -c "$1" | tar -x -C "$2"'


async def download(client: KubeClient, namespace: str, pod: str, source: str, target: Path) -> tuple[int, list[str]]:
    """Copy the file or folder `source` of the sandbox to `target`, which must not exist.

    Returns the bytes on the wire, and what was left out, with the reason."""
    if target.exists():
        raise FileError(f"{target} exists; name a path that does not")
    content = await _run(client, namespace, pod, _DOWNLOAD, source)
    kind, _, data = content.partition(b"\n")
    partial = target.with_name(f".{target.name}.partial")
    left_out: list[str] = []
    try:
        if kind == b"folder":
            left_out = unpack(data, partial)
        else:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.write_bytes(data)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        partial.unlink(missing_ok=True)
    return len(data), left_out


async def upload(client: KubeClient, namespace: str, pod: str, source: Path, target: str) -> int:
    """Copy the file or folder `source` to the path `target` in the sandbox; bytes on the wire."""
    if source.is_dir():
        archived = io.BytesIO()
        with tarfile.open(fileobj=archived, mode="w") as archive:
            archive.add(source, arcname=".")
        script, data = _UPLOAD_FOLDER, archived.getvalue()
    else:
        script, data = _UPLOAD_FILE, source.read_bytes()
    await _run(client, namespace, pod, script, str(len(data)), target, data=data)
    return len(data)


async def _run(
    client: KubeClient, namespace: str, pod: str, script: str, *arguments: str, data: bytes | None = None
) -> bytes:
    """Standard output of a script that ended with 0; raises FileError, HandshakeFailed."""
    command = ["sh", "-c", script, "sh", *arguments]
    channel = await client.exec_stream(namespace, pod, command, container=SANDBOX_CONTAINER, stdin=data is not None)
    output, errors = bytearray(), bytearray()
    try:
        if data:
            await channel.send(data)
        while (received := await channel.receive()) is not None:
            (output if received.stream == STDOUT else errors).extend(received.payload)
            if len(output) + len(errors) > FOLDER_LIMIT:
                raise FileError(f"Pod {pod} sends more than {FOLDER_LIMIT} bytes; copy a part")
    finally:
        await channel.close()
    if channel.status is None:
        raise HandshakeFailed(f"the connection to Pod {pod} was lost; copy again")
    if channel.status.code != 0:  # None: the runtime failed before the script ended
        raise FileError(f"Pod {pod}: {errors.decode(errors='replace').strip() or channel.status.message}")
    return bytes(output)
