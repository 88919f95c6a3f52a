"""Rows of data sets, in the shapes that tasks of this kind come in.

Guarantee: every shape gives the same columns, those of SWE-bench; where a shape has it twice, the dataset's own column
counts.

Shapes: the dataset row itself; `{"text", "metadata": {"instance", "data_source"}}`; `{"prompt", "metadata"}` with the
columns inside `metadata`; `{"prompt": messages, "instance", "data_source"}` (parquet for clusters); NeMo Gym's
`{"responses_create_params": {"metadata"}}`, in which `instance_dict` is JSON; and the columns of R2E-Gym and
SWE-rebench in any of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import r2e, rebench
from .columns import decoded

# What miles calls a data set.
SUBSETS = {"gym": "SWE-Gym/SWE-Gym", "verified": "SWE-bench/SWE-bench_Verified", "lite": "SWE-bench/SWE-bench_Lite"}
TRAIN_ON_BENCHMARK = "train_on_benchmark"


@dataclass(frozen=True)
class Row:
    """One row, whatever its shape was."""

    columns: dict[str, Any]
    data_source: str = ""
    split: str = ""
    train_on_benchmark: bool = False


def row_of(outer: Mapping[str, Any], *, data_source: str = "", split: str = "") -> Row:
    """The row of one line's object; `data_source` and `split` hold where it names none.

    Raises ValueError naming the field that cannot be read.
    """
    metadata = _mapping(outer.get("metadata"))
    columns = _columns(outer, metadata)
    places = (metadata, outer, columns)
    if r2e.is_r2e(columns):
        columns = r2e.swebench_columns(columns)
    elif rebench.is_rebench(columns):
        columns = rebench.swebench_columns(columns)
    if not columns.get("problem_statement"):
        statement = columns.get("instruction") or _text_of(outer.get("prompt")) or outer.get("text")
        columns |= {"problem_statement": statement} if statement else {}
    subset = SUBSETS.get(_named(places, "subset"), "")
    datasets = columns.get("datasets")
    published = str(datasets[0]) if isinstance(datasets, list) and datasets else ""
    named = _named(places, "data_source") or _named(places, "dataset_name") or subset or published
    return Row(
        columns,
        data_source=named or data_source,
        split=_named(places, "split") or split,
        train_on_benchmark=any(place.get(TRAIN_ON_BENCHMARK) is True for place in places),
    )


def _columns(outer: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    request = _mapping(_mapping(outer.get("responses_create_params")).get("metadata"))
    if request:
        instance = _mapping(decoded(request, "instance_dict"))
        rest = {key: value for key, value in request.items() if key != "instance_dict"}
        return {"patch": request.get("golden_patch"), **rest, **instance}
    instance = metadata.get("instance", outer.get("instance"))
    if instance is not None and not isinstance(instance, Mapping):
        raise ValueError(f"field instance is {type(instance).__name__}, not an object")
    return dict(instance) if instance is not None else {**outer, **metadata}


def _text_of(prompt: Any) -> str | None:
    """The text of a prompt given as such or as messages (the last of the user's)."""
    if isinstance(prompt, str):
        return prompt
    messages = prompt if isinstance(prompt, list) else []
    texts = [item.get("content") for item in messages if isinstance(item, Mapping) and item.get("role") == "user"]
    return texts[-1] if texts and isinstance(texts[-1], str) else None


def _named(places: tuple[Mapping[str, Any], ...], key: str) -> str:
    return next((value for place in places if isinstance(value := place.get(key), str) and value), "")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
