"""The inference engines and the router in front of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .base import ApiModel, KubernetesObject, Positive, Resources, TextMap
from .engine_arguments import checked_arguments
from .pod_template import RayPodTemplate
from .pods import RayPods

EngineArguments = Annotated[KubernetesObject, AfterValidator(checked_arguments)]


class RouterSpec(ApiModel):
    """The router in front of the engines."""

    policy: Literal["consistent_hashing", "cache_aware", "round_robin", "power_of_two", "random"] = "consistent_hashing"
    """How requests are spread; consistent_hashing keeps an episode on the engine that holds its prefix."""
    args: TextMap = Field(default_factory=dict)
    """Further command-line arguments of the router, by name without dashes."""


class Engines(ApiModel):
    """The inference engines and the router in front of them."""

    engines: Annotated[int, Field(ge=1, le=1024)] = 1
    """SGLang engines."""
    gpus_per_engine: int = Field(default=0, ge=0, le=64)
    """GPUs of one engine (its tensor parallelism); 0 runs it on CPU."""
    engine_args: EngineArguments = Field(default_factory=dict)
    """Further server arguments of every engine, by name without dashes, e.g. `mem-fraction-static: 0.6`. Refused are
    those that other fields set (model-path, tp-size), those of the server's address and keys, and those that run code
    (trust-remote-code)."""
    router: RouterSpec = Field(default_factory=RouterSpec)
    """Router settings."""
    resources: Resources = Field(default_factory=Resources)
    """Resources of one engine Pod besides its GPUs, which are added."""
    pod_template: RayPodTemplate | None = None
    """What is added to engine Pods, those of a judge included; absent means nothing."""


class RolloutEngines(Engines):
    """The inference engines and the workers that drive episodes; colocated engines have no Pods of their own."""

    probe_seconds: Annotated[int, Field(ge=0, le=3600)] = 60
    """Seconds in which an engine must generate a token when it is probed, and the pause between probes, at most 30. An
    engine that fails two probes in a row is replaced; one that is much slower than the others gets no requests until it
    recovers. 0: no probes."""
    workers: Positive = 1
    """Rollout worker processes on the head Pod; each drives many episodes."""
    weight_update: Literal["direct", "disk"] = "direct"
    """How engines get new weights. direct: over the network between the Pods, or in place with colocate. disk: the
    trainer writes the model to `weights/` in the job's folder on checkpoint.volume and every engine reads it there.
    Use disk where networks carry no process group between the Pods. disk excludes colocate and
    model.lora.update adapter."""
    keep_cache: bool = False
    """Keep the KV cache at a weight update (SGLang's pause mode in_place): running requests continue at once. They, and
    new requests with a cached prefix, then use keys and values of earlier weights, which no version records. False:
    requests are retracted and recomputed, and the cache is emptied. Needs algorithm.partialRollouts."""


class ServedEngines(Engines, RayPods):
    """Engines for weights that do not change, in a Ray cluster of their own."""
