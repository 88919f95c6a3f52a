"""Run while a CPU image is built: removes the CUDA libraries that nothing maps when the trainer's parts are imported.

libtorch links some of them, so those must stay even without a GPU; the others (2 GB) are opened only by GPU code.
"""

import os
from pathlib import Path

os.environ["SGLANG_USE_CPU_ENGINE"] = "1"

import megatron.core  # noqa: F401
import sglang.srt.entrypoints.http_server  # noqa: F401
import torch

mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
for library in (Path(torch.__file__).parent.parent / "nvidia").rglob("*.so*"):
    if str(library.resolve()) not in mapped:
        library.unlink()
