"""The part of Hugging Face's Hub that downloads of models and data sets use, over a folder.

FOLDER has a folder per repository: `OWNER/NAME` of a model, `datasets/OWNER/NAME` of a data set. Every revision is the
same commit. Also `python hub_server.py FOLDER PORT`.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

COMMIT = "1" * 40
API = re.compile(r"/api/(?:models/|(datasets/))([^/]+/[^/]+)(?:/(tree|revision)/[^/]+(?:/(.+))?)?")
FILE = re.compile(r"/((?:datasets/)?[^/]+/[^/]+)/resolve/[^/]+/(.+)")


class Handler(BaseHTTPRequestHandler):
    """Answers with the files below `folder`."""

    folder: Path

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def _answer(self) -> None:
        path, _, query = self.path.partition("?")
        if asked := API.fullmatch(path):
            kind, name, what, inner = asked.groups()
            self._listing(name, self.folder / (kind or "") / name, what, inner or "", "recursive=false" in query)
        elif file := FILE.fullmatch(path):
            self._file(self.folder / file[1] / file[2])
        else:
            self._send(404, b"", {})

    def _listing(self, name: str, repository: Path, what: str | None, inner: str, shallow: bool) -> None:
        if not repository.is_dir():
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        if what == "tree":
            paths = (repository / inner).glob("*" if shallow else "**/*")
            content: object = [_entry(path, repository) for path in sorted(paths)]
        else:
            files = [path for path in sorted(repository.rglob("*")) if path.is_file()]
            siblings = [{"rfilename": str(path.relative_to(repository))} for path in files]
            content = {"id": name, "sha": COMMIT, "siblings": siblings}
        return self._send(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _file(self, path: Path) -> None:
        if not path.is_file():
            return self._send(404, b"", {"X-Error-Code": "EntryNotFound"})
        return self._send(200, path.read_bytes(), {"ETag": f'"{_digest(path)}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _entry(path: Path, repository: Path) -> dict[str, Any]:
    """A file or folder in a listing of a tree."""
    name = str(path.relative_to(repository))
    if path.is_dir():
        return {"type": "directory", "path": name, "size": 0, "oid": hashlib.sha1(name.encode()).hexdigest()}
    return {"type": "file", "path": name, "size": path.stat().st_size, "oid": _digest(path)}


def _digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


def server(folder: Path, host: str, port: int) -> ThreadingHTTPServer:
    return ThreadingHTTPServer((host, port), type("FolderHandler", (Handler,), {"folder": folder}))


@contextmanager
def hub_server(folder: Path) -> Iterator[str]:
    """A hub over `folder` on loopback; its URL."""
    with server(folder, "127.0.0.1", 0) as running:
        thread = Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


if __name__ == "__main__":
    server(Path(sys.argv[1]), "0.0.0.0", int(sys.argv[2])).serve_forever()
