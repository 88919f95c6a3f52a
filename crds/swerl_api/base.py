"""Foundations of the API types.

Guarantees: every model reads and writes the camelCase names of the CRD, refuses unknown fields, and may carry CEL rules
for the API server. The Python side repeats none of these rules, so each rule has one definition.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

GROUP = "swerl.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Rule(NamedTuple):
    """One CEL rule of a schema node: `expression` must hold, else the request is refused with `message`."""

    expression: str
    message: str
    field_path: str = ""  # relative path the error names, as in `.maxConcurrent`


class ApiModel(BaseModel):
    """Base of every spec type."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
    )
    cel_rules: ClassVar[tuple[Rule, ...]] = ()
    _ignored: tuple[str, ...] = ()

    @classmethod
    def from_stored(cls, fields: object) -> Self:
        """The model of a stored object. Fields of a newer CRD are ignored, so that upgrades and rollbacks stop no job.

        Raises ValidationError for everything else that is wrong.
        """
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            model = cls.model_validate(fields, extra="ignore")
            model._ignored = tuple(".".join(map(str, each["loc"])) for each in error.errors())
            return model

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Paths of the fields that `from_stored` ignored."""
        return self._ignored


class StatusModel(ApiModel):
    """Base of status types: a newer writer may add fields, so unknown ones are dropped, not refused."""

    model_config = ConfigDict(extra="ignore")


def immutable(what: str) -> dict[str, Any]:
    """Schema extra that forbids changing the field named `what` after creation."""
    return {"x-kubernetes-validations": [{"rule": "self == oldSelf", "message": f"{what} cannot be changed"}]}


Text = Annotated[str, Field(max_length=1024)]
Name = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")]
LabelValue = Annotated[str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")]
AbsolutePath = Annotated[str, Field(max_length=512, pattern=r"^/")]
RelativePath = Annotated[str, Field(max_length=512, pattern=r"^[^/]|^$")]
PullPolicy = Literal["IfNotPresent", "Never"]
LogFormat = Literal["text", "json"]
LOG_FORMATS: tuple[LogFormat, ...] = ("text", "json")
Egress = Literal["none", "internet", "allow"]
ImageReference = Annotated[str, Field(min_length=1, max_length=512)]
Positive = Annotated[int, Field(ge=1, le=1_000_000_000)]
NonNegative = Annotated[int, Field(ge=0, le=1_000_000_000)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[int, Field(ge=1, le=604_800)]

# Kubernetes' own form without a sign: what is taken here the operator can compute with, and the kubelet can give.
QUANTITY = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
Quantity = Annotated[
    str | int,
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "maxLength": 32,
            "minimum": 0,
        }
    ),
]
Quantities = Annotated[dict[str, Quantity], Field(max_length=16)]
TextMap = Annotated[dict[str, Annotated[str, Field(max_length=4096)]], Field(max_length=64)]
KubernetesObject = Annotated[
    dict[str, Any], WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
]


class Resources(ApiModel):
    """Kubernetes resource requests and limits of one container."""

    requests: Quantities = Field(default_factory=dict)
    """What the scheduler reserves, by resource name, e.g. `cpu: 500m`, `memory: 1Gi`."""
    limits: Quantities = Field(default_factory=dict)
    """What the container may use at most, by resource name."""


class Toleration(ApiModel):
    """A Kubernetes toleration."""

    key: Text | None = None
    """Taint key; absent with operator Exists means every taint."""
    operator: Annotated[str, Field(pattern="^(Exists|Equal)$", max_length=6)] = "Equal"
    """Exists or Equal."""
    value: Text | None = None
    """Taint value for Equal."""
    effect: Annotated[str, Field(pattern="^(NoSchedule|PreferNoSchedule|NoExecute)$", max_length=16)] | None = None
    """Taint effect; absent means all effects."""
    toleration_seconds: int | None = None
    """For NoExecute: seconds the Pod stays after the taint appears; absent means for ever."""


Tolerations = Annotated[list[Toleration], Field(max_length=16)]
NodeSelector = Annotated[dict[str, LabelValue], Field(max_length=16)]
PullSecrets = Annotated[list[Name], Field(max_length=8)]


def format_validation_error(
    error: ValidationError, prefix: str = "", names: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Each invalid field and why, in one line: `spec.replicas: Input should be ...`.

    `prefix` precedes the field; `names` are what the caller's users know fields as.
    """

    def path(place: tuple[str | int, ...]) -> str:
        first = [names.get(str(field), field) for field in place[:1]]
        return prefix + ".".join(map(str, [*first, *place[1:]]))

    return "; ".join(f"{path(each['loc'])}: {each['msg']}" for each in error.errors())
