"""What SGLang imports from `sgl_kernel`, for machines without a GPU.

The published sglang-kernel distribution carries CUDA kernels alone. SGLang's CPU engine (SGLANG_USE_CPU_ENGINE=1) still
imports the names below at start-up; a dense model served with `--attention-backend torch_native` and no speculative
decoding calls only `assign_req_to_token_pool_cpu`. Every other name says at the call what it would be needed for.
Never install this beside the real kernels: it takes their place.
"""

from collections.abc import Callable
from typing import Any, NoReturn

__version__ = "0.4.10+cpu"


def assign_req_to_token_pool_cpu(
    req_pool_indices: Any, req_to_token: Any, start_offset: Any, end_offset: Any, out_cache_loc: Any, pool_len: int
) -> None:
    """Give each request its new KV-cache slots, in place.

    `req_to_token` is [requests, pool_len]; row `req_pool_indices[i]` receives the next `end - start` entries of
    `out_cache_loc` (1-D, all requests one after another) at columns start..end.
    """
    used = 0
    for row, start, end in zip(req_pool_indices.tolist(), start_offset.tolist(), end_offset.tolist(), strict=True):
        slots = out_cache_loc[used : used + end - start]
        req_to_token[row, start:end] = slots.to(req_to_token.dtype)
        used += end - start


def _unavailable(name: str, feature: str) -> Callable[..., NoReturn]:
    def call(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise RuntimeError(f"sgl_kernel.{name}: {feature} needs a GPU build of sglang-kernel; turn the feature off")

    return call


copy_all_layer_kv_cache_cpu = _unavailable("copy_all_layer_kv_cache_cpu", "moving KV-cache pages")
assign_draft_cache_locs_contiguous_cpu = _unavailable("assign_draft_cache_locs_contiguous_cpu", "speculative decoding")
assign_extend_cache_locs_cpu = _unavailable("assign_extend_cache_locs_cpu", "speculative decoding")
build_tree_kernel_efficient_cpu = _unavailable("build_tree_kernel_efficient_cpu", "speculative decoding")
fill_accept_out_cache_loc_cpu = _unavailable("fill_accept_out_cache_loc_cpu", "speculative decoding")
fill_bonus_tokens_cpu = _unavailable("fill_bonus_tokens_cpu", "speculative decoding")
rotate_input_ids_cpu = _unavailable("rotate_input_ids_cpu", "speculative decoding")
verify_tree_greedy_cpu = _unavailable("verify_tree_greedy_cpu", "speculative decoding")
