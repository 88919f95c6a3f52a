"""The settings that SGLang needs on a machine without a GPU.

As a module (`python -m swerl_trainer.engines.cpu <server arguments>`) it is the server's entry point on CPU: SGLang
starts its scheduler and detokenizer as fresh interpreters, which CUDA requires; then three processes spend half a
minute on the same imports. Without CUDA a fork is safe before any thread exists, so here they are forked.
"""

from __future__ import annotations

import os
import pkgutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swerl_trainer.engines.api_key import hide_key_from_log, key_arguments
from swerl_trainer.engines.json_lines import apply_config

MODULE = "swerl_trainer.engines.cpu"
ARGUMENTS: Mapping[str, Any] = {
    "device": "cpu",
    "attention-backend": "torch_native",
    "sampling-backend": "pytorch",
    "sleep-on-idle": True,  # otherwise the idle scheduler occupies a whole core
    "skip-server-warmup": True,
    "mem-fraction-static": 0.2,
    "max-total-tokens": 65536,
}
LORA_ARGUMENTS: Mapping[str, Any] = {"lora-backend": "torch_native"}
ENVIRONMENT: Mapping[str, str] = {
    "SGLANG_USE_CPU_ENGINE": "1",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",  # routers of some mixtures are compiled, for which the image has no C++ compiler
    "SGLANG_NCCL_SO_PATH": "none",  # where torch brings NCCL, ranks on CPU would begin it and fail
    # torch allocates and frees its buffers at every token; keep them in the process to avoid page faults
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
    "MALLOC_TOP_PAD_": "67108864",
}


def unused_architectures(model_type: str) -> str:
    """Value of SGLANG_DISABLED_MODEL_ARCHS that leaves only modules related to the model type `model_type`.

    SGLang imports each of its 250 model modules at start; those with the family's name (qwen3 builds on qwen2) are
    enough. Empty, which disables nothing, when no module has that name.
    """
    import sglang

    folder = Path(next(iter(sglang.__path__))) / "srt" / "models"
    names = [module.name for module in pkgutil.iter_modules([str(folder)])]
    family = model_type.rstrip("0123456789_.")
    if model_type not in names or not family:
        return ""
    return ",".join(name for name in names if not name.startswith(family))


def fork_children() -> None:
    """Replace the `spawn` start method, which SGLang requests, by `fork`."""
    import multiprocessing

    import torch.multiprocessing

    choose = multiprocessing.set_start_method

    def fork(method: str | None, force: bool = False) -> None:
        choose("fork" if method == "spawn" else method, force=True)

    multiprocessing.set_start_method = fork
    torch.multiprocessing.set_start_method = fork


def leave_memory_unpinned() -> None:
    """Let SGLang's adapters start: they pin host memory, which torch refuses without NVIDIA's driver."""
    import torch

    def unpinned(make: Any) -> Any:
        return lambda *values, pin_memory=False, **options: make(*values, **options)

    for name in ("tensor", "zeros", "empty"):
        setattr(torch, name, unpinned(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda self, *_: self  # type: ignore[method-assign]


def main(arguments: list[str]) -> None:
    """Run one SGLang server on CPU until it is stopped."""
    fork_children()
    if "--enable-lora" in arguments:
        leave_memory_unpinned()
    from sglang.launch_server import run_server
    from sglang.srt.server_args import prepare_server_args

    server_args = prepare_server_args([*arguments, *key_arguments()])
    apply_config()
    os.environ.setdefault("SGLANG_DISABLED_MODEL_ARCHS", unused_architectures(_model_type(server_args.model_path)))
    _import_children()
    hide_key_from_log()
    run_server(server_args)


def _import_children() -> None:
    """Import the modules of the children, which inherit them."""
    import sglang.srt.entrypoints.http_server
    import sglang.srt.managers.detokenizer_manager
    import sglang.srt.managers.scheduler
    import sglang.srt.models.registry  # noqa: F401


def _model_type(model: str) -> str:
    import json

    path = Path(model) / "config.json"
    return str(json.loads(path.read_text()).get("model_type", "")) if path.is_file() else ""


if __name__ == "__main__":
    main(sys.argv[1:])
