"""The parallel layout of a training: which ranks share what, and whether a model can be divided that way.

Guarantees: pure; the order of ranks is Megatron's (tensor, context, data, pipeline; tensor fastest), with ranks
numbered by Pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from swerl_api import TrainerSpec

from .shape import ModelShape


@dataclass(frozen=True)
class Layout:
    """Ranks and the sizes of their groups."""

    pods: int
    gpus: int  # of a Pod; 0 trains on CPU
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    virtual: int = 1  # chunks of layers on each pipeline stage
    cpu_ranks: int = 1  # of a Pod without GPUs

    @classmethod
    def of(cls, trainer: TrainerSpec) -> Layout:
        """The layout of `trainer`."""
        return cls(
            trainer.replicas,
            trainer.gpus,
            trainer.tensor_parallel,
            trainer.pipeline_parallel,
            trainer.context_parallel,
            trainer.expert_parallel,
            trainer.virtual_pipeline,
            trainer.cpu_ranks,
        )

    @property
    def ranks_per_pod(self) -> int:
        """Ranks of one Pod."""
        return self.gpus or self.cpu_ranks

    @property
    def ranks(self) -> int:
        """All ranks."""
        return self.pods * self.ranks_per_pod

    @property
    def is_whole(self) -> bool:
        """Whether the sizes of the groups divide the ranks."""
        return not (
            self.ranks % (self.tensor * self.pipeline * self.context) or self.ranks % (self.expert * self.pipeline)
        )

    @property
    def data(self) -> int:
        """Data-parallel size: ranks that train different sequences with the same weights."""
        return self.ranks // (self.tensor * self.pipeline * self.context)

    @property
    def optimizer_shards(self) -> int:
        """Ranks that share the optimizer of the same weights, those of experts apart."""
        return self.data * self.context

    @property
    def expert_shards(self) -> int:
        """Ranks that share the optimizer of the same experts."""
        return self.ranks // (self.expert * self.pipeline)

    @property
    def chunks(self) -> int:
        """Chunks of layers on all pipeline stages together."""
        return self.pipeline * self.virtual

    def layers_of(self, stage: int, layers: int) -> list[int]:
        """Of a model's `layers` those of a pipeline stage: every `pipeline`-th chunk, from chunk `stage` on."""
        size = layers // self.chunks
        return [layer for layer in range(size * self.chunks) if layer // size % self.pipeline == stage]

    def groups(self) -> dict[str, list[list[int]]]:
        """Ranks of each group, by axis; axes of size 1 are absent."""
        strides = {
            "tensor": (1, self.tensor),
            "context": (self.tensor, self.context),
            "data": (self.tensor * self.context, self.data),
            "pipeline": (self.tensor * self.context * self.data, self.pipeline),
        }
        found = {axis: self._groups(stride, size) for axis, (stride, size) in strides.items() if size > 1}
        return found | ({"expert": self._groups(1, self.expert)} if self.expert > 1 else {})

    def _groups(self, stride: int, size: int) -> list[list[int]]:
        starts = (rank for rank in range(self.ranks) if rank // stride % size == 0)
        return [[start + stride * member for member in range(size)] for start in starts]

    def crosses_pods(self, axis: str) -> bool:
        """Whether a group of `axis` has ranks in several Pods."""
        groups = self.groups().get(axis, [])
        return any(len({rank // self.ranks_per_pod for rank in group}) > 1 for group in groups)


def division_problems(shape: ModelShape, layout: Layout) -> Iterator[str]:
    """Why the model cannot be divided over the ranks; nothing when it can."""
    t, p, c, e = layout.tensor, layout.pipeline, layout.context, layout.expert
    ranks_field = "trainer.replicas x gpus" if layout.gpus else "trainer.replicas x cpuRanks"
    if layout.ranks % (t * p * c):
        yield (
            f"{layout.ranks} training ranks cannot hold tensorParallel {t} x pipelineParallel {p} x contextParallel"
            f" {c}: make {ranks_field} a multiple of {t * p * c}"
        )
    elif layout.ranks % (e * p):
        yield (
            f"{layout.ranks} training ranks cannot hold expertParallel {e} x pipelineParallel {p}: make"
            f" {ranks_field} a multiple of {e * p}"
        )
    yield from model_problems(
        heads=shape.heads,
        kv_heads=shape.kv_heads,
        intermediate=shape.intermediate,
        layers=shape.layers,
        experts=shape.experts.count if shape.experts else 0,
        shared_expert=shape.experts.shared if shape.experts else 0,
        layout=layout,
    )


def model_problems(
    *, heads: int, kv_heads: int, intermediate: int, layers: int, experts: int, shared_expert: int, layout: Layout
) -> Iterator[str]:
    """Which of a model's sizes the axes of `layout` do not divide; `experts`: 0 for a dense model."""
    t, p, e = layout.tensor, layout.pipeline, layout.expert
    for size, name, parts, axis in (
        (heads, "attention heads", t, "tensor"),
        (kv_heads, "key/value heads", t, "tensor"),
        (intermediate, "intermediate size", t, "tensor"),
        (shared_expert, "shared expert's size", t, "tensor"),
        (layers, "layers", p, "pipeline"),
    ):
        if size % parts:
            yield f"{name} {size} cannot be divided over {axis}Parallel {parts}: choose a divisor"
    if not layers % p and layers % layout.chunks:
        yield (
            f"layers {layers} cannot be divided over pipelineParallel {p} x virtualPipeline {layout.virtual}: choose a"
            f" virtualPipeline that divides {layers // p}"
        )
    if not experts and e != 1:
        yield f"expertParallel {e} needs a mixture of experts; this model is dense"
    if experts % e:
        yield f"{experts} experts cannot be divided over expertParallel {e}: choose a divisor"


@dataclass(frozen=True)
class RankParameters:
    """Parameters of one rank."""

    shared: int  # those of its optimizer group: all but routed experts
    experts: int  # routed experts, whose optimizer is divided otherwise

    @property
    def all(self) -> int:
        """Both together."""
        return self.shared + self.experts

    def owned(self, layout: Layout) -> int:
        """Those whose optimizer state this rank has."""
        return self.shared // layout.optimizer_shards + self.experts // layout.expert_shards


def rank_parameters(shape: ModelShape, layout: Layout, stage: int) -> RankParameters:
    """Parameters of a rank of pipeline stage `stage` (the same for all of them)."""
    embedding = -(-shape.vocabulary // layout.tensor) * layout.tensor * shape.hidden  # rows padded for all ranks
    layers = layout.layers_of(stage, shape.layers)
    divided = sum(shape.attention + shape.mlp(layer) for layer in layers)
    whole = sum(shape.norms + shape.router(layer) for layer in layers)
    first, last = stage == 0, stage == layout.pipeline - 1
    if first:
        divided += embedding
    if last:
        whole += shape.hidden
        if not (shape.tied and first):  # a tied last stage keeps a copy of its own
            divided += embedding
    experts = sum(shape.routed(layer) for layer in layers)
    return RankParameters(divided // layout.tensor + whole, experts // layout.expert)
