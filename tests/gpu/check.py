"""`make gpu-check`: the GPU path of the trainer and the engines on this machine's GPU, tests first, then speed.

Guarantees: without a CUDA device it ends with a message and exit status 2, before anything is installed. Standard
library only, so that any Python can say it.

    python3 -m tests.gpu.check [--python INTERPRETER] [--only tests|bench] [-- ARGUMENTS OF PYTEST OR OF THE BENCHMARK]

With `--python` (an interpreter that has the trainer's packages, as in the GPU image) nothing is installed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cluster.layout import swerl_home
from demo.environment import ensure

ROOT = Path(__file__).resolve().parents[2]
VENV = swerl_home() / "gpu-venv"
PINS = ROOT / "requirements" / "trainer-gpu.txt"
FUSED_KERNELS = ROOT / "requirements" / "trainer-te.txt"
COMPILES_THEM = ROOT / "requirements" / "trainer-te-build.txt"
TEST_TOOLS = ROOT / "requirements" / "trainer-test.in"
PYTHON = "python3.12"  # what the pins were resolved for
NO_DEVICE = 2


class NoDevice(RuntimeError):
    """There is no CUDA device; the message says what was missing."""


def cuda_devices() -> int:
    """Number of CUDA devices. Raises NoDevice when there is none that this process may use."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoDevice(f"the NVIDIA driver's library is not there ({error})") from error
    if status := driver.cuInit(0):
        raise NoDevice(f"the NVIDIA driver answers with error {status}")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise NoDevice("the NVIDIA driver shows no device to this process")
    return count.value


def environment() -> str:
    """Interpreter of an environment with the GPU's packages; Transformer Engine too where a CUDA compiler is."""
    interpreter = shutil.which(PYTHON)
    if interpreter is None:
        raise SystemExit(f"gpu-check: no {PYTHON} here, which {PINS.name} is for; install it or give --python")
    python = ensure(VENV, PINS, interpreter)
    install = [str(VENV / "bin/uv"), "pip", "install", "-q", "--python", str(python)]
    subprocess.run([*install, "-c", str(PINS), "-r", str(TEST_TOOLS)], check=True)
    if shutil.which("nvcc") is None:
        print("gpu-check: no nvcc here, so no Transformer Engine: only torch's kernels are checked", flush=True)
    else:
        install += ["--no-deps", "--require-hashes", "--no-build-isolation"]
        for packages in (COMPILES_THEM, FUSED_KERNELS):
            subprocess.run([*install, "-r", str(packages)], check=True)
    return str(python)


def main(arguments: list[str]) -> int:
    split = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python3 -m tests.gpu.check", description=__doc__)
    parser.add_argument("--python", help="interpreter that has the trainer's packages; nothing is installed then")
    parser.add_argument("--only", choices=["tests", "bench"])
    options, passed_on = parser.parse_args(arguments[:split]), arguments[split + 1 :]
    try:
        cuda_devices()
    except NoDevice as error:
        print(f"gpu-check: no CUDA device: {error}; run it on a machine with an NVIDIA GPU", file=sys.stderr)
        return NO_DEVICE
    python = options.python or environment()
    commands = {
        "tests": [python, "-m", "pytest", "-q", *(passed_on or ["tests/gpu"])],
        "bench": [python, "-m", "tests.gpu.bench", *(passed_on if options.only == "bench" else [])],
    }
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in ("crds", "agent", "trainer", ""))
    }
    for name in [options.only] if options.only else list(commands):
        if status := subprocess.run(commands[name], cwd=ROOT, env=environ).returncode:
            return status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
