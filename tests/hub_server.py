"""The part of Hugging Face's Hub that `snapshot_download` uses, over a folder; also `python hub_server.py FOLDER PORT`.

FOLDER has a folder per repository, `OWNER/NAME`. Every revision is the same commit.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "1" * 40


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
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._listing(self.folder / parts[2] / parts[3], parts)
        elif parts[2:3] == ["resolve"]:
            self._file(self.folder / parts[0] / parts[1] / "/".join(parts[4:]))
        else:
            self._send(404, b"", {})

    def _listing(self, repository: Path, parts: list[str]) -> None:
        if not repository.is_dir():
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"})
        paths = [path for path in sorted(repository.rglob("*")) if path.is_file()]
        names = {str(path.relative_to(repository)): path for path in paths}
        if parts[4:5] == ["tree"]:
            content: object = [
                {"type": "file", "path": name, "size": path.stat().st_size, "oid": _digest(path)}
                for name, path in names.items()
            ]
        else:
            siblings = [{"rfilename": name} for name in names]
            content = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings}
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
