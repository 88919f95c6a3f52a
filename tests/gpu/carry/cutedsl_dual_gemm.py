"""In place of SGLang's module of this name, whose kernel is for Blackwell alone: no layer may use it."""

from enum import IntEnum
from typing import Any

MAX_DUAL_GEMM_DECODE_TOKENS = 16


class DualGemmQuantMode(IntEnum):
    """Modes of SGLang's kernel."""

    STATIC_PER_TENSOR = 0
    STATIC_PER_TOKEN = 1
    DYNAMIC_PER_TENSOR = 2
    DYNAMIC_PER_TOKEN = 3
    UNQUANT = 4


def can_use_dual_gemm(*_: Any) -> bool:
    """Whether a layer's shapes fit the kernel."""
    return False
