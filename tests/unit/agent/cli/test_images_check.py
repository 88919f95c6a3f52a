"""`swerl images check` asks for the images of rows and lists, each once, where they are rewritten to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from swerl_agent.cli import main

from tests.unit.docs.pages import command_of

SANDBOXES, VERIFIED = "docs/sandboxes.md", "docs/swe-bench-verified.md"
ROWS = [
    {"instance_id": "getmoto__moto-1", "data_source": "SWE-Gym/SWE-Gym"},
    {"instance_id": "getmoto__moto-2", "data_source": "SWE-Gym/SWE-Gym"},
    {"text": "It breaks.", "metadata": {"instance": {"instance_id": "own-1", "image": "own/image:Tag"}}},
]


@pytest.fixture
def registry() -> Iterator[tuple[str, list[str]]]:
    """A registry without the images whose names end in -2, and the paths requested from it."""
    requested: list[str] = []

    class Registry(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            requested.append(self.path)
            self.send_response(404 if "-2/" in self.path else 200)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", requested
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.mark.parametrize(("page", "file"), [(SANDBOXES, "train.jsonl"), (VERIFIED, "verified/verified.jsonl")])
def test_documented_command_asks_the_registry(
    registry: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str, file: str
) -> None:
    host, requested = registry
    monkeypatch.chdir(tmp_path)
    Path(file).parent.mkdir(exist_ok=True)
    Path(file).write_text(json.dumps(ROWS[0]) + "\n")
    words = command_of(page, "swerl", "images", "check", file)
    here = [word.replace("registry.example.org", host) for word in words[1:]]
    assert main(here if page == SANDBOXES else [*here, "--registry-rewrite", f"docker.io/={host}/"]) == 0
    assert requested == ["/v2/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-1/manifests/latest"]


def test_missing_images_are_printed_one_a_line(
    registry: tuple[str, list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host, requested = registry
    rows, names = tmp_path / "train.jsonl", tmp_path / "docker_images.txt"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    names.write_text("# Verified\n\nown/image:Tag\n")
    rewrites = ["--registry-rewrite", f"docker.io/={host}/"]
    assert main(["images", "check", str(rows), str(names), *rewrites]) == 1
    printed = capsys.readouterr()
    missing = f"{host}/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-2:latest"
    assert printed.out.splitlines() == [missing]
    assert printed.err == f"swerl: {missing}: no such image\nswerl: 2 of 3 images are there, 1 are not\n"
    assert sorted(requested)[0] == "/v2/own/image/manifests/Tag" and len(requested) == 3
    assert main(["images", "check", str(rows), "--slice", "0:1", *rewrites]) == 0
    assert main(["images", "check", str(names), "--registry-rewrite", "=127.0.0.1:9/", "--retries", "0"]) == 3
    assert "1 undecided" in capsys.readouterr().err


def test_rows_and_lists_that_name_no_image_are_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, empty = tmp_path / "rows.jsonl", tmp_path / "images.txt"
    rows.write_text('{"instance_id": "a__b-1"}\n')
    empty.write_text("# none\n")
    for path, options in [
        (rows, "no image: the row has none"),
        (empty, "no image is left"),
        (tmp_path / "no.txt", "no.txt"),
    ]:
        assert main(["images", "check", str(path)]) == 2
        assert options in capsys.readouterr().err
