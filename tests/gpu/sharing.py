"""The training side of a weight update on this GPU."""

from __future__ import annotations

from swerl_trainer.location import Location
from swerl_trainer.megatron.trainer import MegatronTrainer
from swerl_trainer.weight_bucket import WeightBucket, WeightSample

from tests.gpu.serving import HERE


class OneRank:
    """The training side of a weight update: one rank in this process."""

    def __init__(self, trainer: MegatronTrainer) -> None:
        self.trainer = trainer

    async def locations(self) -> list[Location]:
        return [HERE]

    async def weight_buckets(self, max_bytes: int = 2**28) -> list[WeightBucket]:
        return self.trainer.sender.metadata(max_bytes)

    async def export_bucket(self, number: int) -> list[str]:
        return [self.trainer.sender.export(number)]

    async def release_bucket(self) -> None:
        self.trainer.sender.release()

    async def weight_sample(self, version: int, *, engine_ranks: int) -> WeightSample:
        return self.trainer.sender.sample(version, engine_ranks)
