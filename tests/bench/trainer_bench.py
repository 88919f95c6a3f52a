"""The trainer on CPU: packing, the driver's share of a step, checkpoints, weight updates, and the plan's memory.

It runs in the trainer's image (`make bench-trainer`; `make bench-async` for asynchrony alone), each part in a process
of its own. Arguments: the parts to run, by default all. QUICK=1 runs fewer rounds and steps.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.figures import QUICK, Figure, conclude
from tests.ports import free_port
from tests.trainer.megatron.plan_limits import (
    PART_LIMIT,
    PHASE_LIMIT,
    SMALL_RANK_LIMIT,
    SMALLER_STAGE_LIMIT,
    error_limit,
)

PlanErrors = dict[tuple[str, int, str], float]  # relative errors by layout, rank, and phase or part of a step
PLAN_FIGURES = {
    PART_LIMIT: "plan_error_of_a_part_largest",
    PHASE_LIMIT: "plan_error_largest",
    SMALLER_STAGE_LIMIT: "plan_error_smaller_stage_save",
    SMALL_RANK_LIMIT: "plan_error_small_ranks",
}
MODEL = Path(__file__).parents[2] / "tiny_model" / "model"
# Of a step of the demo: episodes, agent.contextTokens, trainer.maxTokensPerGpu.
SEQUENCES, CONTEXT, BUDGET = 32, 512, 4096
ROUNDS = 2 if QUICK else 5  # of packed and padded steps in turn; the fastest counts
STEPS = 4 if QUICK else 8  # of the job
SEED = 5


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = [figure for part in sys.argv[1:] or PARTS for figure in _in_a_process(part, Path(folder))]
    return conclude(found)


def _in_a_process(part: str, folder: Path) -> list[Figure]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.bench.trainer_bench", "--part", part, str(folder / part)]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [Figure(**figure) for figure in json.loads(output.splitlines()[-1])]


def packing(_: Path) -> list[dict[str, Any]]:
    """Tokens of the demo's episodes per second of a training step, packed, and each padded to the context."""
    from swerl_api import AlgorithmSpec, TrainerSpec
    from swerl_trainer.algorithm import policy_batch
    from swerl_trainer.megatron.config import RankConfig
    from swerl_trainer.megatron.trainer import MegatronTrainer

    settings = TrainerSpec(image="-", max_tokens_per_gpu=BUDGET)
    config = RankConfig(str(MODEL), "float32", settings, AlgorithmSpec(lr=1e-5))
    trainer = MegatronTrainer(config, rank=0, world_size=1, address="127.0.0.1", port=free_port())
    batches = [policy_batch(samples(padded=padded), config.algorithm) for padded in (False, True)]
    seconds: list[list[float]] = [[], []]
    for _round in range(ROUNDS + 1):
        for batch, taken in zip(batches, seconds, strict=True):
            began = time.monotonic()
            trainer.train_step(batch)
            taken.append(time.monotonic() - began)
    tokens = sum(len(sequence) for sequence in batches[0].sequences)
    ours, peer = (tokens / min(taken[1:]) for taken in seconds)
    return [{"name": "packed_over_padded_tokens_per_s", "ours": ours, "peer": peer, "goal": 2.0, "at_least": True}]


def samples(*, padded: bool) -> list[Any]:
    """Episodes as the demo's model was trained on, in groups of eight with one success; `padded` to CONTEXT tokens."""
    from swerl_trainer.algorithm import TrainingSample
    from transformers import AutoTokenizer

    from tiny_model.defects import random_defect
    from tiny_model.episodes import Noise, demonstration

    tokenizer, rng = AutoTokenizer.from_pretrained(MODEL), random.Random(SEED)
    found = []
    for number in range(SEQUENCES):
        tokens: list[int] = []
        mask: list[int] = []
        for segment in demonstration(random_defect(rng), rng, Noise()):
            ids = tokenizer.encode(segment.text, add_special_tokens=False)
            tokens, mask = tokens + ids, mask + [int(segment.sampled)] * len(ids)
        missing = CONTEXT - len(tokens) if padded else 0
        tokens, mask = tokens + [0] * missing, mask + [0] * missing
        group, reward = number // 8, float(number % 8 == 0)
        found.append(TrainingSample(tokens, mask, [-1.0] * len(tokens), reward, True, f"g{group}", number, f"t{group}"))
    return found


def job(folder: Path) -> list[dict[str, Any]]:
    """A job with the demo's model and sizes on real ranks and two real engines; only sandboxes and tests are local."""
    from tests.bench.training_job import shares_of_a_job

    return shares_of_a_job(folder, MODEL, steps=STEPS, context=CONTEXT, budget=BUDGET)


def asynchrony(folder: Path) -> list[dict[str, Any]]:
    """Steps per hour of a job whose sandboxes have a long tail: synchronous, one step ahead, and asynchronous."""
    from tests.bench.asynchrony import steps_per_hour

    return steps_per_hour(folder, MODEL, quick=QUICK)


def plan(folder: Path) -> list[dict[str, Any]]:
    """The largest differences between a rank's memory and the plan's."""
    from tests.trainer.megatron.test_plan import CASES, deviations, write_models

    folder.mkdir()
    models = write_models(folder / "models")
    cases = list(CASES)[:1] if QUICK else list(CASES)
    errors: PlanErrors = {}
    for name in cases:
        (folder / name).mkdir()
        errors |= {(name, *place): error for place, error in deviations(name, models, folder / name).items()}
    return plan_figures(errors)


def plan_figures(errors: PlanErrors) -> list[dict[str, Any]]:
    """The largest error of each limit of the plan's test, which has the reason for each limit."""
    largest: dict[float, float] = {}
    for (layout, rank, what), error in errors.items():
        limit = error_limit(layout, rank, what, error)
        largest[limit] = max(largest.get(limit, 0.0), abs(error))
    return [{"name": PLAN_FIGURES[limit], "ours": error, "goal": limit} for limit, error in sorted(largest.items())]


PARTS = {"packing": packing, "job": job, "asynchrony": asynchrony, "plan": plan}

if __name__ == "__main__":
    if "--part" in sys.argv:
        print(json.dumps(PARTS[sys.argv[2]](Path(sys.argv[3]))))
        sys.exit(0)
    sys.exit(main())
