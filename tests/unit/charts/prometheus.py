"""A real Prometheus that reads exporters of this machine, and what it answers."""

from __future__ import annotations

import json
import math
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.ports import free_port

from .queries import ALERTS

DEADLINE = 60.0  # seconds


class Prometheus:
    """The HTTP API of a running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(self._url + path + "?" + urllib.parse.urlencode(query), timeout=30) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[float]:
        """The present values of an instant query."""
        return [float(sample["value"][1]) for sample in self.get("query", query=expression)["result"]]

    def answers(self, expression: str, *, finite: bool = True) -> bool:
        """True when a series has a value now, and a finite one unless that is not asked for; a Prometheus that starts
        has none."""
        try:
            return any(math.isfinite(value) or not finite for value in self.values(expression))
        except (urllib.error.URLError, ConnectionError):
            return False


@contextmanager
def running_prometheus(folder: Path, ports: tuple[int, int], every: str = "1s") -> Iterator[Prometheus]:
    """A Prometheus that reads both exporters and the alerts, each as the chart's monitors do, `every` so often."""
    targets = [{"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": "team-a"}} for port in ports]
    often = dict.fromkeys(("scrape_interval", "scrape_timeout", "evaluation_interval"), every)
    scrapes = [{"job_name": "swe-rl", "static_configs": targets}]
    config = {"global": often, "rule_files": [str(ALERTS)], "scrape_configs": scrapes}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    command = [
        "prometheus",
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        yield Prometheus(port)
        process.terminate()


def without_data(server: Prometheus, expressions: Iterable[str]) -> list[str]:
    """Those that never had a value until the deadline; a single scrape may fail on a busy machine."""
    end, left = time.monotonic() + DEADLINE, list(expressions)
    while (left := [each for each in left if not server.answers(each)]) and time.monotonic() < end:
        time.sleep(0.5)
    return left
