"""What SGLang's CUDA path imports from `sgl_kernel`, in plain PyTorch, for a GPU machine without that distribution.

For checks on such a machine only: never install it beside the real kernels, whose place it takes. A dense model served
with `--attention-backend triton --sampling-backend pytorch` calls only the functions written out here. Every other
name, in this module or in a submodule, can be imported and says at the call that it is missing.
"""

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F

__version__ = "0.4.10+standin"


# Normalisation


def rmsnorm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    enable_pdl: Any = None,
) -> torch.Tensor:
    """x / rms(x) * weight over the last dimension, computed in float32."""
    if _compiled(input) and _kernels()._is_supported_rmsnorm_hidden_size(input.shape[-1]):
        out = torch.empty_like(input) if out is None else out
        _kernels().rmsnorm(input, weight, out, eps)
        return out
    result = _normalised(input, weight.float(), eps).to(input.dtype)
    return result if out is None else out.copy_(result)


def fused_add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, enable_pdl: Any = None
) -> None:
    """In place: residual += input; input = rmsnorm(residual)."""
    if _compiled(input) and _kernels().is_supported_jit_fused_add_rmsnorm_hidden_size(input.shape[-1]):
        _kernels().fused_add_rmsnorm(input, residual, weight, eps, cast_x_before_out_mul=False)
        return
    total = input.float() + residual.float()
    residual.copy_(total)
    input.copy_(_normalised(total, weight.float(), eps))


def gemma_rmsnorm(
    input: torch.Tensor,
    weight: torch.Tensor,
    eps: float = 1e-6,
    out: torch.Tensor | None = None,
    enable_pdl: Any = None,
) -> torch.Tensor:
    """rmsnorm with weight + 1."""
    result = _normalised(input, weight.float() + 1, eps).to(input.dtype)
    return result if out is None else out.copy_(result)


def gemma_fused_add_rmsnorm(
    input: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6, enable_pdl: Any = None
) -> None:
    """fused_add_rmsnorm with weight + 1."""
    total = input.float() + residual.float()
    residual.copy_(total)
    input.copy_(_normalised(total, weight.float() + 1, eps))


def _compiled(x: torch.Tensor) -> bool:
    """Whether SGLang's own run-time compiled kernels take `x`; STANDIN_PLAIN=1 keeps to PyTorch."""
    return x.is_cuda and x.is_contiguous() and x.dtype == torch.bfloat16 and os.environ.get("STANDIN_PLAIN") != "1"


def _kernels() -> Any:
    from sglang.kernels.ops.layernorm import norm

    return norm


def _normalised(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


# Activation: the first half of the last dimension goes through it and is multiplied by the second half


def silu_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    gate, up = input.chunk(2, -1)
    return _into(F.silu(gate.float()) * up.float(), input, out)


def gelu_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    gate, up = input.chunk(2, -1)
    return _into(F.gelu(gate.float()) * up.float(), input, out)


def gelu_tanh_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    gate, up = input.chunk(2, -1)
    return _into(F.gelu(gate.float(), approximate="tanh") * up.float(), input, out)


def _into(result: torch.Tensor, input: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    return result.to(input.dtype) if out is None else out.copy_(result)


# Sampling


def top_k_renorm_prob(probs: torch.Tensor, top_k: torch.Tensor | int) -> torch.Tensor:
    """Each row's top_k largest probabilities, scaled to sum 1; the others 0."""
    limit = torch.as_tensor(top_k, device=probs.device).reshape(-1, 1).clamp(1, probs.shape[-1]).long()
    ordered = probs.sort(-1, descending=True).values
    kept = torch.where(probs >= ordered.gather(-1, limit.expand(len(probs), 1) - 1), probs, 0)
    return kept / kept.sum(-1, keepdim=True)


def top_p_renorm_prob(probs: torch.Tensor, top_p: torch.Tensor | float) -> torch.Tensor:
    """Each row's smallest set of largest probabilities that reaches top_p, scaled to sum 1; the others 0."""
    limit = torch.as_tensor(top_p, device=probs.device, dtype=probs.dtype).reshape(-1, 1)
    ordered, order = probs.sort(-1, descending=True)
    ordered = torch.where(ordered.cumsum(-1) - ordered < limit, ordered, 0)
    kept = torch.zeros_like(probs).scatter_(-1, order, ordered)
    return kept / kept.sum(-1, keepdim=True)


def is_arch_support_pdl() -> bool:
    """Whether kernels may be launched before their predecessor's end; plain PyTorch never does."""
    return False


def weak_ref_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A view of `tensor` for a captured graph. The real one does not keep the memory alive; this one does."""
    return tensor.detach()


# Names that are imported but not called


class ScalarType:
    """Stand-in of a quantised number's type."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.id = hash(name)
        self.size_bits = 4


class _ScalarTypes:
    def __getattr__(self, name: str) -> ScalarType:
        if name.startswith("__"):
            raise AttributeError(name)
        return ScalarType(name)


scalar_types = _ScalarTypes()


def _missing(name: str) -> Any:
    def call(*_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"sgl_kernel.{name}: the stand-in has no such kernel; turn the feature off")

    return call


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _missing(name)


class _Submodules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Every submodule is a view of this module."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if not fullname.startswith(f"{__name__}."):
            return None
        return importlib.util.spec_from_loader(fullname, self, is_package=True)

    def create_module(self, spec: Any) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        whole = sys.modules[__name__]
        module.__getattr__ = lambda name: getattr(whole, name)  # type: ignore[method-assign]


sys.meta_path.append(_Submodules())
