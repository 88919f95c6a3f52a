"""`python -m tests.gpu.machine`: record the card and the versions of what runs on it. Needs torch."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import torch

from tests.gpu.record import record

PACKAGES = ("torch", "triton", "transformers", "megatron-core", "sglang", "transformer-engine")

if __name__ == "__main__":
    record("card", torch.cuda.get_device_name())
    record("cuda", str(torch.version.cuda))
    record("memory_gib", round(torch.cuda.mem_get_info()[1] / 2**30, 1))
    for package in PACKAGES:
        try:
            record(package, version(package))
        except PackageNotFoundError:
            record(package, "not installed")
