"""A program's own lines become lines of our format, with ids."""

from __future__ import annotations

import json
import subprocess

import pytest
from swerl_kube.log_relay import relay_command, relayed_line
from swerl_kube.logs import LogSettings

IDS = {"namespace": "n", "job": "demo", "attempt": 2}
NOW = "2026-01-01T00:00:00.000+00:00"
STAMP = "2026-01-02T03:04:05.678901Z"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            {
                "timestamp": STAMP,
                "level": "WARN",
                "fields": {"message": "gone", "worker": "http://e:1"},
                "target": "smg",
            },
            {"time": STAMP, "level": "warning", "logger": "smg", "message": "gone", "worker": "http://e:1"},
        ),
        (
            {"timestamp": STAMP, "level": "ERROR", "message": "flat", "target": "smg", "job": "another"},
            {"time": STAMP, "level": "error", "logger": "smg", "message": "flat"},
        ),
        (
            "thread 'main' panicked",
            {"time": NOW, "level": "info", "logger": "text", "message": "thread 'main' panicked"},
        ),
        ("[1, 2]", {"time": NOW, "level": "info", "logger": "text", "message": "[1, 2]"}),
    ],
)
def test_line_has_our_keys_and_the_ids(line: dict[str, object] | str, expected: dict[str, object]) -> None:
    text = line if isinstance(line, str) else json.dumps(line)
    assert json.loads(relayed_line(text, IDS, NOW)) == expected | IDS


@pytest.mark.parametrize("line", ['{"fields": 3}', "{", '{"a":' * 3000, "\x1b[31mred"])
def test_line_of_no_known_form_is_kept_as_text(line: str) -> None:
    assert json.loads(relayed_line(line, IDS, NOW))["message"] == line


def test_relay_writes_all_lines_and_ends_with_its_input() -> None:
    command = relay_command(LogSettings("json", IDS))
    given = json.dumps({"level": "WARN", "message": "one"}).encode() + b"\n\n\xff two\r\nlast"
    done = subprocess.run(command, input=given, capture_output=True, timeout=60, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["message"] for line in lines] == ["one", "\ufffd two", "last"]
    assert all(line.items() >= IDS.items() for line in lines)
