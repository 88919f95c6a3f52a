"""Which field of a SweRLJob is meant where a file has another name.

Pure. Sources: names of other systems (verl, slime, OpenRLHF, TRL, Hugging Face), another case, another place, a typing
error.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel
from swerl_api import SweRLJobSpec

# name without case, dashes and underscores -> field of the spec, or what to do instead
OTHER_NAMES: Mapping[str, str] = {
    "learningrate": "algorithm.lr",
    "actorlr": "algorithm.lr",
    "nsamplesperprompt": "algorithm.groupSize",
    "numgenerations": "algorithm.groupSize",
    "numreturnsequences": "algorithm.groupSize",
    "rolloutn": "algorithm.groupSize",
    "rolloutbatchsize": "algorithm.promptsPerStep",
    "trainbatchsize": "algorithm.promptsPerStep",
    "batchsize": "algorithm.promptsPerStep",
    "globalbatchsize": "algorithm.minibatches",
    "ppominibatchsize": "algorithm.minibatches",
    "numrollout": "algorithm.steps",
    "maxsteps": "algorithm.steps",
    "epochs": "algorithm.steps",
    "numepochs": "algorithm.steps",
    "numtrainepochs": "algorithm.steps",
    "totalepochs": "algorithm.steps",
    "totaltrainingsteps": "algorithm.steps",
    "epsclip": "algorithm.clipLow",
    "cliprange": "algorithm.clipLow",
    "cliprangelow": "algorithm.clipLow",
    "clipratiolow": "algorithm.clipLow",
    "epsclipc": "algorithm.dualClip",
    "epscliphigh": "algorithm.clipHigh",
    "cliprangehigh": "algorithm.clipHigh",
    "clipratiohigh": "algorithm.clipHigh",
    "kllosscoef": "algorithm.klCoef",
    "klcoefficient": "algorithm.klCoef",
    "beta": "algorithm.klCoef",
    "advantageestimator": "algorithm.name",
    "advestimator": "algorithm.name",
    "clipgrad": "algorithm.maxGradNorm",
    "gradclip": "algorithm.maxGradNorm",
    "entropycoeff": "algorithm.entropyCoef",
    "tensormodelparallelsize": "trainer.tensorParallel",
    "tensorparallelsize": "trainer.tensorParallel",
    "tp": "trainer.tensorParallel",
    "pipelinemodelparallelsize": "trainer.pipelineParallel",
    "pipelineparallelsize": "trainer.pipelineParallel",
    "pp": "trainer.pipelineParallel",
    "virtualpipelinemodelparallelsize": "trainer.virtualPipeline",
    "vpp": "trainer.virtualPipeline",
    "contextparallelsize": "trainer.contextParallel",
    "cp": "trainer.contextParallel",
    "expertmodelparallelsize": "trainer.expertParallel",
    "ep": "trainer.expertParallel",
    "ngpuspernode": "trainer.gpus",
    "actornumgpuspernode": "trainer.gpus",
    "numgpus": "trainer.gpus",
    "gpuspernode": "trainer.gpus",
    "nnodes": "trainer.replicas",
    "actornumnodes": "trainer.replicas",
    "numnodes": "trainer.replicas",
    "rolloutnumgpusperengine": "rollout.gpusPerEngine",
    "numengines": "rollout.engines",
    "vllmnumengines": "rollout.engines",
    "gpumemoryutilization": "rollout.engineArgs, as {mem-fraction-static: 0.8}",
    "sglangmemfractionstatic": "rollout.engineArgs, as {mem-fraction-static: 0.8}",
    "hfcheckpoint": "model.source.huggingFace.id",
    "modelpath": "model.source.huggingFace.id, or model.source.persistentVolumeClaim",
    "modelname": "model.source.huggingFace.id",
    "modelnameorpath": "model.source.huggingFace.id",
    "bf16": "model.dtype bfloat16",
    "lorarank": "model.lora.rank",
    "promptdata": "tasks.source",
    "dataset": "tasks.source",
    "maxresponselength": "agent.maxTokensPerTurn",
    "maxnewtokens": "agent.maxTokensPerTurn",
    "maxtokens": "agent.maxTokensPerTurn",
    "maxmodellen": "agent.contextTokens",
    "maxpromptlength": "agent.contextTokens",
    "contextlength": "agent.contextTokens",
    "maxturns": "agent.stepLimit",
    "maxiterations": "agent.stepLimit",
    "saveinterval": "checkpoint.every",
    "savefreq": "checkpoint.every",
    "savesteps": "checkpoint.every",
    "saveto": "checkpoint.volume",
    "outputdir": "checkpoint.volume",
    "resumefromcheckpoint": "checkpoint.resume",
    "evalinterval": "evaluation.every",
    "testfreq": "evaluation.every",
    "backofflimit": "retries",
    "maxretries": "retries",
    "queue": "queueName",
    "runtimeclass": "sandbox.runtimeClassName",
    "timeout": "activeDeadlineSeconds",
    "imagepullsecrets": "trainer.pullSecrets and sandbox.pullSecrets",
    "reward": "algorithm.reward",
    "numworkers": "rollout.workers",
}
MIN_SIMILARITY = 0.75  # of difflib, from which a name counts as misspelt


def remedy_for(path: str) -> str:
    """What to do about the unknown field at `path` of the spec, such as `algorithm.learning_rate`."""
    parent, _, name = path.rpartition(".")
    siblings = known_fields(parent)
    camel = re.sub(r"[_-]+([A-Za-z0-9])", lambda match: match[1].upper(), name)
    same = next((field for field in siblings if _bare(field) == _bare(name)), None)
    if same or camel in siblings:
        return f"use spec.{parent + '.' if parent else ''}{same or camel}"
    if other := OTHER_NAMES.get(_bare(name)):
        return f"use spec.{other}"
    elsewhere = [field for field in all_fields() if _bare(field.rpartition(".")[2]) == _bare(name)]
    if elsewhere:
        return f"it belongs to spec.{' or spec.'.join(sorted(elsewhere, key=len)[:2])}"
    if close := difflib.get_close_matches(name, siblings, 1, MIN_SIMILARITY):
        return f"use spec.{parent + '.' if parent else ''}{close[0]}"
    choices = ", ".join(sorted(siblings)) if siblings else "none"
    return f"leave it out; fields there: {choices}"


def _bare(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def known_fields(path: str) -> frozenset[str]:
    """Names of the fields below `path` ('': of the spec itself)."""
    prefix = f"{path}." if path else ""
    inside = (field.removeprefix(prefix) for field in all_fields() if field.startswith(prefix))
    return frozenset(field for field in inside if "." not in field)


@cache
def all_fields() -> frozenset[str]:
    """Dotted path of every field of the spec."""
    return frozenset(_paths(SweRLJobSpec, ""))


def _paths(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        path = f"{prefix}{field.alias or name}"
        yield path
        for nested in _models(field.annotation):
            yield from _paths(nested, f"{path}.")


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)
