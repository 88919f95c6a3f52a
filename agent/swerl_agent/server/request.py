"""What a client asks for with `POST /run`, in the wire format of NeMo Gym's agent servers.

Guarantee: a request that cannot be carried out as it stands is refused, with the name of the invalid field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, ValidationError, model_validator

from swerl_agent.tasks import Task, TaskError
from swerl_agent.tasks.importing import ImportRequest, import_one
from swerl_agent.tasks.row_files import UnreadRow

from .access import same_origin

# Sampling parameters that do not affect tokens, and those that change nothing with this value.
TEXT_ONLY = frozenset({"no_stop_trim", "skip_special_tokens", "spaces_between_special_tokens"})
NEUTRAL = {"frequency_penalty": 0, "min_p": 0, "n": 1, "presence_penalty": 0, "repetition_penalty": 1}


class InvalidRequest(ValueError):
    """A request that cannot be carried out; the message names the field."""


@dataclass(frozen=True)
class RequestDefaults:
    """Values for fields that a request lacks."""

    engine: str | None = None  # URL of an SGLang server or router
    engines: tuple[str, ...] | None = None  # URLs that requests may name; None: any
    engine_needed: bool = True  # whether a request is refused that names none when this does not either
    temperature: float = 0.0
    # how rows become tasks
    import_request: ImportRequest = field(default_factory=lambda: ImportRequest(purpose="evaluation"))

    def allows(self, engine: str) -> bool:
        """Whether requests may name `engine`."""
        return self.engines is None or any(same_origin(engine, one) for one in self.engines)


@dataclass(frozen=True)
class Sampling:
    """How the model's tokens are drawn."""

    temperature: float
    top_p: float
    top_k: int  # -1: of all tokens
    max_new_tokens: int | None  # per answer; None: as many as the agent's limits allow


@dataclass(frozen=True)
class RunRequest:
    """One rollout to make."""

    task: Task
    instance_id: str  # as the client calls the task
    engine: str  # base URL of the native API, '' for none
    sampling: Sampling
    subset: str  # of the data set, as the client calls it; '' when nothing names one
    create_params: Mapping[str, Any] = field(repr=False)  # `responses_create_params`, given back with the answer


class _SamplingParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    top_k: int = Field(default=-1, ge=-1)
    max_new_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="before")
    @classmethod
    def _without_neutral_values(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        return {
            key: value
            for key, value in values.items()
            if key not in TEXT_ONLY and value not in (None, "", []) and (key not in NEUTRAL or value != NEUTRAL[key])
        }


class _CreateParams(BaseModel):
    model_config = ConfigDict(extra="allow")

    temperature: float | None = Field(default=None, ge=0)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_output_tokens: int | None = Field(default=None, ge=1)


class _RunBody(BaseModel):
    model_config = ConfigDict(extra="allow")

    responses_create_params: _CreateParams = _CreateParams()
    sampling_params: _SamplingParams = _SamplingParams()
    sglang_url: AnyHttpUrl | None = None
    instance_id: str | None = None
    subset: str | None = None

    @property
    def engine(self) -> str | None:
        """The host of the OpenAI face (`…/v1`), which has the native API, too."""
        return str(self.sglang_url).rstrip("/").removesuffix("/v1") if self.sglang_url else None

    def sampling(self, temperature: float) -> Sampling:
        """`sampling_params`, else what `responses_create_params` say, else `temperature`."""
        first, second = self.sampling_params, self.responses_create_params
        temperatures = (first.temperature, second.temperature, temperature)
        return Sampling(
            temperature=next(value for value in temperatures if value is not None),
            top_p=first.top_p or second.top_p or 1.0,
            top_k=first.top_k or -1,
            max_new_tokens=first.max_new_tokens or second.max_output_tokens,
        )


def read_request(data: bytes, defaults: RequestDefaults) -> RunRequest:
    """The request in the body of a `POST /run`; raises InvalidRequest."""
    values = _object(data)
    try:
        body = _RunBody.model_validate(values)
    except ValidationError as error:
        raise InvalidRequest("; ".join(_field_error(one) for one in error.errors())) from error
    engine = body.engine or defaults.engine
    if body.engine is not None and not defaults.allows(body.engine):
        raise InvalidRequest(f"field sglang_url: {body.engine} is not an engine of this server; see --allow-engine")
    if engine is None and defaults.engine_needed:
        raise InvalidRequest("field sglang_url is missing, and the server was given no --engine")
    try:
        task = import_one(UnreadRow("the request", partial(dict, values)), defaults.import_request)
    except TaskError as error:
        raise InvalidRequest(str(error)) from error
    return RunRequest(
        task=task,
        instance_id=body.instance_id or task.instance_id,
        engine=engine or "",
        sampling=body.sampling(defaults.temperature),
        subset=body.subset or task.data_source,
        create_params=values.get("responses_create_params") or {},
    )


def _object(data: bytes) -> dict[str, Any]:
    try:
        values = json.loads(data)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError included
        raise InvalidRequest(f"the request is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise InvalidRequest("the request must be a JSON object")
    return values


def _field_error(error: Any) -> str:
    return f"field {'.'.join(map(str, error['loc']))}: {error['msg']}"
