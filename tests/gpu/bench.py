"""Speed on one GPU, beside what the card could do and what others report: training, rollouts, weight updates.

    python -m tests.gpu.bench [training] [mfu] [rollout] [weights]     (all when none is named)

`mfu` is model FLOP/s (`Shape.training_flops`) over PEAK_TFLOPS, the dense bfloat16 peak of the datasheet. A rollout's
peer is the card's own bound: a decoding step must read every weight and the cache of every sequence once, at the
bandwidth measured here. Each case runs in a process of its own, so that none inherits another's memory.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Literal, TypeVar

from tests.bench.figures import QUICK, Figure, conclude
from tests.gpu.record import record
from tests.gpu.shapes import QWEN3_0_6B, QWEN3_4B, Shape, write_random

T = TypeVar("T")
PEAK_TFLOPS = float(os.environ.get("PEAK_TFLOPS", "989"))  # H100 and H200 SXM
SEQUENCE = 2048
MICRO_BATCHES = 4
WARM_UPS, RUNS = (1, 2) if QUICK else (2, 5)
BATCHES = (1, 64, 256)
PROMPT_TOKENS, NEW_TOKENS = 128, 256
# Others' model FLOP utilisation, from their published benchmarks: prime-rl, reinforcement learning of Qwen3-0.6B on one
# H100 at 16k; the same, supervised training of Qwen3-4B on 8 H200 at 16k.
PEER_MFU = {"0.6b": 0.111, "4b": 0.284}
MFU_GOAL = 0.40  # of Qwen3-4B at 16k
RECOMPUTE_GOAL = 0.65  # of the speed without: a fourth pass beside three would leave 0.75
ROLLOUT_GOALS = {1: 0.4, 64: 0.4, 256: 0.3}  # of the card's bound
UPDATE_GOALS = {"0.6b": 1.0, "4b": 3.0}  # seconds


@dataclass(frozen=True)
class TrainingCase:
    """A GRPO step whose speed is measured.

    `variant`: `compiled` layers by torch.compile, torch's `fused_adamw`, or `without_overlap` of gradients' transfer.
    """

    shape: Shape
    packed: int  # tokens per micro-batch
    recompute: Literal["none", "full"] = "none"
    variant: Literal["", "compiled", "fused_adamw", "without_overlap"] = ""

    @property
    def name(self) -> str:
        """`train_4b_16k_compiled`, say."""
        recompute = "" if self.recompute == "none" else f"recompute_{self.recompute}"
        return "_".join(filter(None, ("train", self.shape.name, f"{self.packed // 1024}k", recompute, self.variant)))

    @property
    def lengths(self) -> list[int]:
        """Tokens of the sequences of one step, which fill MICRO_BATCHES micro-batches."""
        return [SEQUENCE] * (MICRO_BATCHES * self.packed // SEQUENCE)

    def mfu(self, tokens_per_second: float) -> float:
        """Model FLOP utilisation; recomputation is not counted."""
        return tokens_per_second * self.shape.training_flops(SEQUENCE) / (PEAK_TFLOPS * 1e12)


AT_16K = TrainingCase(QWEN3_4B, 16_384)
VARIANTS = (
    replace(AT_16K, variant="compiled"),
    replace(AT_16K, variant="fused_adamw"),
    replace(AT_16K, variant="without_overlap"),
)


def main(arguments: list[str]) -> int:
    parts = {"training": training, "mfu": mfu, "rollout": rollout, "weights": weights}
    parts_to_run = arguments or list(parts)
    if unknown := [name for name in parts_to_run if name not in parts]:
        print(f"tests.gpu.bench: no part {unknown[0]}; there are {', '.join(parts)}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="swerl-gpu-bench-") as folder:
        return conclude([_recorded(figure) for name in parts_to_run for figure in parts[name](Path(folder))])


def _recorded(figure: Figure) -> Figure:
    record(figure.name, figure.ours)
    return figure


def training(folder: Path) -> Iterator[Figure]:
    """Tokens per second and MFU of a GRPO step over packed sequences, with and without recomputation."""
    for shape in (QWEN3_0_6B, QWEN3_4B):
        case = TrainingCase(shape, 8192)
        recomputed = replace(case, recompute="full")
        plain = _isolated(_train, folder, case)
        rate = _isolated(_train, folder, recomputed)
        yield Figure(f"{case.name}_mfu", case.mfu(plain), 1.0, PEER_MFU[shape.name], at_least=True)
        yield Figure(f"{recomputed.name}_tokens_per_s", rate, RECOMPUTE_GOAL, plain, at_least=True)


def mfu(folder: Path) -> Iterator[Figure]:
    """MFU of Qwen3-4B's shape at 16k; a case that fails, for lack of memory or of a compiler, is 0 and short."""
    for case in (AT_16K, replace(AT_16K, recompute="full"), *VARIANTS):
        goal = MFU_GOAL * (RECOMPUTE_GOAL if case.recompute == "full" else 1)
        yield Figure(f"{case.name}_mfu", _mfu_or_zero(folder, case), goal, at_least=True)


def _mfu_or_zero(folder: Path, case: TrainingCase) -> float:
    try:
        return case.mfu(_isolated(_train, folder, case))
    except Exception:
        traceback.print_exc()
        return 0.0


def rollout(folder: Path) -> Iterator[Figure]:
    """Generated tokens per second at several numbers of requests at once."""
    bandwidth = _isolated(_bandwidth)
    for shape in (QWEN3_0_6B, QWEN3_4B):
        for batch, rate in zip(BATCHES, _isolated(_generate, folder, shape), strict=True):
            cache = batch * shape.cache_bytes(PROMPT_TOKENS + NEW_TOKENS // 2)
            bound = batch * bandwidth / (2 * shape.parameters + cache)
            name = f"rollout_{shape.name}_batch_{batch}_tokens_per_s"
            yield Figure(name, rate, ROLLOUT_GOALS[batch], bound, at_least=True)


def weights(folder: Path) -> Iterator[Figure]:
    """Seconds in which an engine on the same GPU has all new weights."""
    for shape in (QWEN3_0_6B, QWEN3_4B):
        yield Figure(f"weight_update_{shape.name}_s", _isolated(_update, folder, shape), UPDATE_GOALS[shape.name])


def _isolated(work: Callable[..., T], *arguments: Any) -> T:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _model(folder: Path, shape: Shape) -> Path:
    model_folder = folder / shape.name
    return model_folder if model_folder.is_dir() else write_random(model_folder, shape)


def _train(folder: Path, case: TrainingCase) -> float:
    """Tokens per second of the median step."""
    from swerl_api import AlgorithmSpec, TrainerSpec
    from swerl_trainer.algorithm import TrainingSample, policy_batch
    from swerl_trainer.megatron.config import RankConfig
    from swerl_trainer.megatron.device import Device
    from swerl_trainer.megatron.trainer import MegatronTrainer

    from tests.ports import free_port

    rng = random.Random(0)
    samples = []
    for number, length in enumerate(case.lengths):
        tokens = [rng.randrange(case.shape.vocabulary) for _ in range(length)]
        mask, logprobs = [0] * (length // 4) + [1] * (length - length // 4), [-11.0] * length
        samples.append(
            TrainingSample(tokens, mask, logprobs, float(number % 2), True, f"g{number // 4}", number % 4, "task")
        )
    trainer_spec = TrainerSpec(image="trainer", max_tokens_per_gpu=case.packed, recompute=case.recompute)
    config = RankConfig(str(_model(folder, case.shape)), "bfloat16", trainer_spec, AlgorithmSpec())
    device = Device.detect()
    if case.variant == "without_overlap":
        device = replace(device, overlaps=False)
    trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port(), device=device)
    _apply(case, trainer)
    batch = policy_batch(samples, AlgorithmSpec())
    rates = [trainer.train_step(batch)["tokens_per_second"] for _ in range(WARM_UPS + RUNS)]
    trainer.close()
    return median(rates[WARM_UPS:])


def _apply(case: TrainingCase, trainer: Any) -> None:
    """Turn on the part of `case.variant` that exists after the model is built."""
    import torch
    from megatron.core.transformer.transformer_layer import TransformerLayer

    if case.variant == "compiled":
        for module in trainer.model.modules():
            if isinstance(module, TransformerLayer):
                module.compile()
    if case.variant == "fused_adamw":
        optimizers = [each.optimizer for each in getattr(trainer.optimizer, "chained_optimizers", [trainer.optimizer])]
        for group in (g for each in optimizers if isinstance(each, torch.optim.AdamW) for g in each.param_groups):
            group.update(fused=True, foreach=False)  # Transformer Engine's optimizer is fused without this


def _bandwidth() -> float:
    """Bytes per second of the device's memory, read and written, by a copy of 4 GiB."""
    import torch

    source = torch.randn(2**30, device="cuda")
    target = torch.empty_like(source)
    seconds = []
    for _ in range(WARM_UPS + RUNS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        target.copy_(source)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return 2 * source.nbytes / median(seconds[WARM_UPS:])


def _generate(folder: Path, shape: Shape) -> list[float]:
    """Tokens per second at each of BATCHES; the best of a few runs, the first of which warms up."""
    from tests.gpu.serving import Engine, engine_of

    rng = random.Random(0)

    async def generate_one(engine: Engine, batch: int) -> float:
        prompts = [[rng.randrange(shape.vocabulary) for _ in range(PROMPT_TOKENS)] for _ in range(batch)]
        started = time.perf_counter()
        await asyncio.gather(*(engine.generate(NEW_TOKENS, prompt=prompt) for prompt in prompts))
        return batch * NEW_TOKENS / (time.perf_counter() - started)

    async def all_batches() -> list[float]:
        log = folder / f"engine-{shape.name}.log"
        async with engine_of(_model(folder, shape), log, memory=0.8) as engine:
            return [max([await generate_one(engine, batch) for _ in range(3)]) for batch in BATCHES]

    return asyncio.run(all_batches())


def _update(folder: Path, shape: Shape) -> float:
    """Seconds of the median update; the first opens the engine's view of the rank's memory."""
    from swerl_api import AlgorithmSpec, TrainerSpec
    from swerl_trainer.engines.links import CudaIpcLink
    from swerl_trainer.megatron.config import RankConfig
    from swerl_trainer.megatron.trainer import MegatronTrainer

    from tests.gpu.serving import engine_of
    from tests.gpu.sharing import OneRank
    from tests.ports import free_port

    async def updates() -> list[float]:
        model = _model(folder, shape)
        async with engine_of(model, folder / f"update-{shape.name}.log", share_gpu=True) as engine:
            config = RankConfig(str(model), "bfloat16", TrainerSpec(image="trainer"), AlgorithmSpec())
            trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
            link = CudaIpcLink(OneRank(trainer), [engine.client])  # type: ignore[arg-type]
            seconds = []
            for version in range(1 + RUNS):
                started = time.perf_counter()
                await link.send(version)
                seconds.append(time.perf_counter() - started)
            trainer.close()
            return seconds

    return median(asyncio.run(updates())[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
