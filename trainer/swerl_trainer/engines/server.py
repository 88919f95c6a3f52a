"""One SGLang server process.

Guarantees: the command line is a pure function of its settings; the process leads a session of its own, so that
stopping it stops its scheduler and detokenizer too; its output is kept and quoted when it fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from swerl_api import LoraSpec
from swerl_api.addresses import url_host
from swerl_kube.logs import LogSettings
from swerl_plan import SHARED_FRACTION
from swerl_trainer.engines import cpu, gpu
from swerl_trainer.engines.errors import EngineStartError
from swerl_trainer.engines.json_lines import write_config
from swerl_trainer.engines.part_sums import PLUGIN

READY_TIMEOUT = 1800.0  # seconds; a large model is read from a slow volume
READY_POLL = 0.25  # seconds between two requests of /ready, which costs the server 2 ms
STOP_GRACE = 2.0  # seconds from SIGTERM to SIGKILL; a server has nothing to save
KEEP_ALIVE_SECONDS = 3600  # of an idle connection
EXPERT_RANKS = ("ep-size", "expert-parallel-size", "ep")  # names of one argument
LOG_TAIL = 4000  # characters of the log quoted in an error


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """The server of one engine, as it follows from the specs of a job, its judge or an evaluation."""

    model: str  # folder in Hugging Face format
    tokenizer: str | None = None  # None: the model's folder
    dtype: str
    gpus: int  # tensor-parallel size; 0 runs on CPU
    context_tokens: int
    share_gpu: bool = False  # the trainer uses the same GPUs while the engine sleeps
    seed: int = 0
    reads_model: bool = True  # False: it starts with random weights, for the trainer to replace
    lora: LoraSpec | None = None  # the adapters that it will load; None: it loads none
    arguments: Mapping[str, Any] = field(default_factory=dict)  # by flag name without dashes; they override all others
    log: LogSettings = field(default_factory=LogSettings)

    @property
    def expert_ranks(self) -> int:
        """Parts into which a server divides the experts of a mixture."""
        given = {name.replace("_", "-"): value for name, value in self.arguments.items()}
        return next((int(given[name]) for name in EXPERT_RANKS if name in given), 1)

    @property
    def log_level(self) -> str:
        """SGLang's level of logging, unless its arguments choose another."""
        return str(self.arguments.get("log-level") or self.arguments.get("log_level") or "info")


def server_arguments(settings: ServerSettings) -> dict[str, Any]:
    """Flag name -> value of all server arguments but host and port; True is a bare flag, None and False mean none,
    a list is several values."""
    chosen: dict[str, Any] = {
        "model-path": settings.model,
        "tokenizer-path": settings.tokenizer,
        "dtype": settings.dtype,
        "context-length": settings.context_tokens,
        "random-seed": settings.seed,
        "tp-size": settings.gpus or None,
        "load-format": None if settings.reads_model else "dummy",
        "enable-metrics": True,  # each answer then says how long its request waited
    }
    if settings.lora:
        chosen |= {
            "enable-lora": True,
            "max-lora-rank": settings.lora.rank,
            "lora-target-modules": list(settings.lora.targets),
            "max-loras-per-batch": 2,  # the adapter, and no adapter
        }
    if not settings.gpus:
        chosen |= {**cpu.ARGUMENTS, **(cpu.LORA_ARGUMENTS if settings.lora else {})}
    elif settings.share_gpu:
        chosen |= {"enable-memory-saver": True, "mem-fraction-static": SHARED_FRACTION}
    given = {name.replace("_", "-") for name in settings.arguments}
    return {name: value for name, value in chosen.items() if name not in given} | dict(settings.arguments)


def server_command(settings: ServerSettings, host: str, port: int) -> list[str]:
    """The command line of one server."""
    module = gpu.MODULE if settings.gpus else cpu.MODULE
    command = [sys.executable, "-m", module, "--host", host, "--port", str(port)]
    for name, value in server_arguments(settings).items():
        if value is None or value is False:
            continue
        values = [] if value is True else value if isinstance(value, list) else [value]
        command += [f"--{name}", *map(str, values)]
    return command


def server_environment(settings: ServerSettings) -> dict[str, str]:
    """Environment of the server: this process's, on CPU with SGLang's settings for it."""
    # the router requests /health, which must respond without generating: an engine may be paused for new weights
    # An idle connection stays open for longer than a training step: by default the server closes it after 5 s
    extra = {
        "HF_HUB_OFFLINE": "1",
        "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
        "SGLANG_HEALTH_CHECK_TIMEOUT": "3600",  # the pool's own limit decides how long a probe may take
        "SGLANG_TIMEOUT_KEEP_ALIVE": str(KEEP_ALIVE_SECONDS),
    }
    extra |= {} if settings.gpus else dict(cpu.ENVIRONMENT)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(PLUGIN)]))
    merged = extra | dict(os.environ) if settings.gpus else dict(os.environ) | extra
    return merged | {"PYTHONPATH": path}


class EngineServer:
    """A running server process."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process = process
        self.url = url
        self.log = log

    @classmethod
    def launch(cls, settings: ServerSettings, *, host: str, log: Path, port: int | None = None) -> EngineServer:
        """Start a server that listens on `host`; it is not ready yet."""
        port = port or free_port(host)
        log.parent.mkdir(parents=True, exist_ok=True)
        config = write_config(log.with_suffix(".logging.json"), settings.log, settings.log_level)
        with log.open("wb") as sink:
            process = subprocess.Popen(
                server_command(settings, host, port),
                env=server_environment(settings) | config,
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        return cls(process, f"http://{url_host(host)}:{port}", log)

    @property
    def alive(self) -> bool:
        """Whether the server's main process runs."""
        return self.process.poll() is None

    async def ready(self, timeout: float = READY_TIMEOUT) -> None:
        """Return when the server takes requests. Raises EngineStartError when it ends first or takes too long."""
        deadline = time.monotonic() + timeout
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http:
            while time.monotonic() < deadline:
                if not self.alive:
                    raise EngineStartError(
                        f"SGLang at {self.url} exited with code {self.process.returncode} before it was ready; "
                        f"end of {self.log}:\n{self.tail()}"
                    )
                if await _answers(http, f"{self.url}/ready"):
                    return
                await asyncio.sleep(READY_POLL)
        raise EngineStartError(f"SGLang at {self.url} not ready in {timeout:.0f} s; end of {self.log}:\n{self.tail()}")

    def tail(self) -> str:
        """The end of the server's output."""
        return self.log.read_bytes()[-LOG_TAIL:].decode(errors="replace") if self.log.is_file() else ""

    def stop(self, grace: float = STOP_GRACE) -> None:
        """End the server and its children; returns when the main process is gone."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(grace)
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            return


def free_port(host: str) -> int:
    """A TCP port of `host` that was free a moment ago."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


async def _answers(http: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with http.get(url) as response:
            return response.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
