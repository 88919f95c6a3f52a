"""Memory of one training rank in each phase of a job, on its GPU and on its host.

Guarantees: pure; every amount is the peak of its phase, for the stage that needs most. On CPU all is host memory.
Activations are those of a micro-batch whose every token is trained, an upper bound. Sources: Korthikanti et al. 2022,
eq. 1-6, without what fused attention does not store; the buffers are Megatron's (distributed_data_parallel,
distrib_optimizer, hybrid_optimizer) and those of `swerl_trainer.megatron`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from .adapters import trained_parameters
from .layout import Layout, rank_parameters
from .shape import GATED_MATRICES, ModelShape

GIB = 2**30
FP32 = 4
BYTES_PER_WEIGHT = {"bfloat16": 2, "float32": FP32}  # by `model.dtype`
ADAM_MOMENTS = 2 * FP32
STATE = FP32 + ADAM_MOMENTS  # of a parameter in the optimizer: fp32 weight and two moments
OFFLOADED_STATE = STATE + FP32 + 2  # on the host also the gradient and the pinned bf16 copy
BUCKET_BYTES = 512 * 2**20  # weights of one transfer to the engines
LOGITS_CHUNK = 2**27  # logits of a rank that exist in fp32 at once: 512 MiB
EXPERT_IMBALANCE = 1.5  # tokens of the busiest rank's experts, relative to the mean
GPU_RESERVE = 3 * GIB  # CUDA context, NCCL buffers, library workspaces
GPU_PROCESS = 5 * GIB  # host memory of a rank with CUDA: libraries, pinned buffers
CPU_PROCESS = GIB // 2  # host memory of a rank without CUDA: Python, torch, Megatron

Phase = Literal["load", "step", "save", "update", "switch"]
PHASES: tuple[Phase, ...] = ("load", "step", "save", "update", "switch")


@dataclass(frozen=True)
class TrainingSettings:
    """What of a job decides the memory of its ranks, beside model and layout."""

    bytes_per_weight: int  # 2 for bfloat16, 4 for float32
    tokens: int  # of a rank's largest micro-batch
    recompute: Literal["none", "selective", "full"]
    offload: bool
    colocate: bool
    reference: bool  # a frozen copy for a KL penalty
    adapter_rank: int = 0  # of low-rank adapters, which alone are trained; 0: all weights are
    adapter_targets: tuple[str, ...] = ()
    bucket: int = BUCKET_BYTES  # of weights in one transfer to the engines


@dataclass(frozen=True)
class Memory:
    """Bytes by what holds them, on a GPU and in its rank's host memory."""

    gpu: Mapping[str, int] = field(default_factory=dict)
    host: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpu_bytes(self) -> int:
        """All on the GPU."""
        return sum(self.gpu.values())

    @property
    def host_bytes(self) -> int:
        """All on the host."""
        return sum(self.host.values())

    def on_host(self) -> Memory:
        """The same where the device is the host."""
        return Memory({}, {name: self.gpu.get(name, 0) + self.host.get(name, 0) for name in {**self.gpu, **self.host}})


def rank_memory(shape: ModelShape, layout: Layout, settings: TrainingSettings) -> dict[Phase, Memory]:
    """Peak of each phase, over the pipeline stages; `switch` replaces `update` where engines share the GPUs."""
    found: dict[Phase, Memory] = {}
    for stage in sorted({0, layout.pipeline // 2, layout.pipeline - 1}):
        for phase, memory in _Stage(shape, layout, settings, stage).phases().items():
            if phase not in found or memory.gpu_bytes + memory.host_bytes > _total(found[phase]):
                found[phase] = memory
    return found if layout.gpus else {phase: memory.on_host() for phase, memory in found.items()}


def _total(memory: Memory) -> int:
    return memory.gpu_bytes + memory.host_bytes


class _Stage:
    """Memory of a rank of one pipeline stage."""

    def __init__(self, shape: ModelShape, layout: Layout, settings: TrainingSettings, stage: int) -> None:
        self.shape, self.layout, self.settings, self.stage = shape, layout, settings, stage
        adapters = settings.adapter_rank, settings.adapter_targets
        self.trained = trained_parameters(shape, layout, stage, *adapters)
        held = rank_parameters(shape, layout, stage).all if settings.adapter_rank else 0
        self.frozen = settings.bytes_per_weight * held
        self.weights = self.frozen + settings.bytes_per_weight * self.trained.all
        self.gradients = FP32 * self.trained.all
        self.sharded = self.trained.owned(layout)  # parameters whose optimizer state this rank has
        self.fused = layout.gpus > 0  # Transformer Engine's kernels

    def phases(self) -> dict[Phase, Memory]:
        found: dict[Phase, Memory] = {
            "load": self._memory({"weights": self.weights + self._copied, "gradients": self.gradients}),
            "step": self._memory(self._resident() | self._training(), trains=True),
            "save": self._save(),
        }
        shares_gpu = self.settings.colocate and self.layout.gpus > 0
        transfer = self._transfer(whole_model=shares_gpu)
        update = self._memory(self._resident(released=shares_gpu) | transfer, trains=True)
        return found | {"switch" if shares_gpu else "update": update}

    def _memory(self, gpu: Mapping[str, int], host: Mapping[str, int] | None = None, *, trains: bool = False) -> Memory:
        """With what a process needs anyway; `trains`: the optimizer has its state."""
        settings = self.settings
        process = {"process": GPU_PROCESS if self.layout.gpus else CPU_PROCESS}
        reference = {"reference": 2 * self.weights} if settings.reference and not self.frozen else {}
        offloaded = {"optimizer": OFFLOADED_STATE * self.sharded} if trains and self._offloads else {}
        return Memory(
            {**gpu, **({"reserve": GPU_RESERVE} if self.layout.gpus else {})},
            {**process, **reference, **offloaded, **(host or {})},
        )

    @property
    def _copied(self) -> int:
        """Trained weights that exist twice while they move to their buffer: those of one chunk of layers at a time, and
        experts, whose buffer is another one, after the others."""
        embedding = self.shape.embedding // self.layout.tensor
        kinds = (self.trained.shared, self.trained.experts)
        return self.settings.bytes_per_weight * max(min(k, k // self.layout.virtual + embedding) for k in kinds)

    @property
    def _offloads(self) -> bool:
        return self.settings.offload and self.layout.gpus > 0

    def _resident(self, *, released: bool = False) -> dict[str, int]:
        """What stays on the device between phases; gradients may be released for engines on the same GPU."""
        optimizer = 0 if self._offloads else self._optimizer
        gradients = 0 if released else self.gradients
        return {"weights": self.weights, "gradients": gradients, "optimizer": optimizer}

    @property
    def _optimizer(self) -> int:
        """fp32 weights are their own main copy."""
        return (STATE if self.settings.bytes_per_weight < FP32 else ADAM_MOMENTS) * self.sharded

    def _save(self) -> Memory:
        """Every rank copies the optimizer and the weights that it writes to its host, and the next step begins; a
        resume reads as much."""
        written = (STATE + self.settings.bytes_per_weight) * self.sharded
        return self._memory(self._resident() | self._training(), {"written": written}, trains=True)

    def _training(self) -> dict[str, int]:
        """What a step needs beside what stays: gloo sums a copy of the gradients, NCCL needs none."""
        reduction = {} if self.layout.gpus else {"reduction": self.gradients}
        return {"activations": self._activations(), **self._logits(), **reduction}

    def _transfer(self, *, whole_model: bool) -> dict[str, int]:
        """The bucket that engines take, the next one, and what its tensors are gathered from; buckets of the whole
        model, or of this stage."""
        each, own = self.settings.bytes_per_weight, replace(self.layout, tensor=1)
        stage = self.shape.parameters if whole_model else rank_parameters(self.shape, own, self.stage).all
        sent, embedding = each * stage, each * self._sent_embedding(whole_model)
        first = max(min(self.settings.bucket, sent), embedding)
        second = min(self.settings.bucket, max(0, sent - first))
        return {"bucket": first + second, "gathered": self._gathered(embedding, whole_model)}

    def _gathered(self, embedding: int, whole_model: bool) -> int:
        """Shards of a tensor and the whole one; two of a fused matrix exist at once, and a merged one also in fp32."""
        layout, shape = self.layout, self.shape
        received = whole_model and (layout.pipeline > 1 or layout.expert > 1)
        copies = 2 if layout.tensor > 1 else int(received)
        mlp = max(shape.mlp(0), shape.mlp(shape.layers - 1), shape.expert) // GATED_MATRICES
        matrix = max(mlp, shape.hidden * shape.heads * shape.head_size)
        merged = 3 * FP32 * matrix if self.settings.adapter_rank else 0
        return max(copies * embedding, (copies + 2) * self.settings.bytes_per_weight * matrix + merged)

    def _sent_embedding(self, whole_model: bool) -> int:
        """Parameters of the embedding or output layer among the tensors of an update; adapters leave them as they
        are."""
        last = self.stage == self.layout.pipeline - 1 and not self.shape.tied
        sent = whole_model or (not self.settings.adapter_rank and (self.stage == 0 or last))
        return self.shape.embedding if sent else 0

    def _activations(self) -> int:
        """Micro-batches in flight on this stage keep their layers' activations."""
        each = [self._layer(layer) for layer in self.layout.layers_of(self.stage, self.shape.layers)]
        kept = len(each) * self._stream if self.settings.recompute == "full" else sum(each)
        working = max(each) * (1 if self.settings.recompute == "full" else 0) + self._backward
        return round(self._in_flight * kept + working)

    @property
    def _in_flight(self) -> float:
        """Micro-batches whose activations this stage keeps at most; interleaved, it counts chunks of layers. Megatron's
        `get_pp_rank_microbatches` and the one that begins."""
        following = self.layout.pipeline - self.stage - 1
        if self.layout.virtual == 1:
            return following + 1
        return self.layout.pipeline + (2 * following + 1 - self.layout.pipeline) / self.layout.virtual

    @property
    def _stream(self) -> float:
        """Bytes of the residual stream of a micro-batch, which sequence parallelism divides."""
        return self.settings.bytes_per_weight * self.settings.tokens * self.shape.hidden / self.layout.tensor

    def _layer(self, layer: int) -> float:
        """Bytes that one layer keeps of a micro-batch for its backward pass."""
        shape, t = self.shape, self.layout.tensor
        norms = 4 if self.fused else 8  # inputs and outputs of two norms; torch's norm also keeps scaled inputs
        query, key = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
        projected = query + 2 * key
        rotated = (query + key) * (2 if shape.qk_norm else 1)
        attention = (projected + rotated + query * (1 if self.fused else 2)) / t
        tokens = self.settings.bytes_per_weight * self.settings.tokens
        return norms * self._stream + tokens * (attention + self._mlp_width(layer))

    def _mlp_width(self, layer: int) -> float:
        """Values per token that the MLP of `layer` keeps: gate and up, the activated gate, their product."""
        shape, experts, t = self.shape, self.shape.experts, self.layout.tensor
        dense = shape.intermediate if experts is None or layer < experts.dense_layers else experts.shared
        width = 4 * dense / t
        if experts is not None and layer >= experts.dense_layers:
            copies = experts.per_token * EXPERT_IMBALANCE / self.layout.tensor
            width += copies * (4 * experts.intermediate + 2 * shape.hidden)
        return width

    @property
    def _backward(self) -> float:
        """Gradients of the widest values of one layer."""
        shape = self.shape
        tokens = self.settings.bytes_per_weight * self.settings.tokens
        return 2 * self._stream + tokens * 3 * max(map(self._mlp_width, (0, shape.layers - 1))) / 4

    def _logits(self) -> dict[str, int]:
        """Logits of a chunk of the trained tokens, two fp32 copies and the gradient; on the last stage."""
        if self.stage != self.layout.pipeline - 1:
            return {}
        width = -(-self.shape.vocabulary // self.layout.tensor)
        each = self.settings.bytes_per_weight
        gradient = each if each < FP32 else 0
        return {"logits": min(self.settings.tokens * width, LOGITS_CHUNK) * (each + 2 * FP32 + gradient)}
