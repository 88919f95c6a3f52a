"""Names of task images.

Guarantees: the same row gives the same name everywhere. The name of a repository is lower case, as registries demand;
tags and digests keep their case. A naming rule belongs to a data set that is known by name, never to a part of a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# What stands for the "__" of an instance id differs between the two public namespaces.
_SWE_GYM = ("docker.io/xingyaoww", "_s_")
_SWE_BENCH = ("docker.io/swebench", "_1776_")
# Name of a data set without its owner, as `set_name` writes it.
NAMESPACES = {
    **dict.fromkeys(("swe-gym", "swe-gym-lite", "swe-gym-subset", "swe-gym-raw"), _SWE_GYM),
    **dict.fromkeys(("swe-bench", "swe-bench-lite", "swe-bench-verified", "swe-bench-multilingual"), _SWE_BENCH),
}
COLUMNS = ("image", "image_name", "docker_image")


def image_name(row: Mapping[str, Any], data_source: str) -> str:
    """Image of a row: its own `image`, `image_name` or `docker_image`, else the public name in its data set.

    Raises ValueError for an image that is no string, and for a row without one whose data set has no naming rule.
    """
    for key in COLUMNS:
        image = row.get(key)
        if image and not isinstance(image, str):
            raise ValueError(f"field {key} is {type(image).__name__}, not a string")
        if image:
            return normalized(str(image))
    if set_name(data_source) not in NAMESPACES:
        raise ValueError(
            f"no image: the row has none of {', '.join(COLUMNS)}, and no naming rule is known for data source"
            f" {data_source!r}; add a column image, or name the set with --data-source ({', '.join(NAMESPACES)})"
        )
    namespace, separator = NAMESPACES[set_name(data_source)]
    instance = str(row["instance_id"]).replace("__", separator).lower()
    return f"{namespace}/sweb.eval.x86_64.{instance}:latest"


def set_name(data_source: str) -> str:
    """A data set's name without owner, in lower case, with hyphens: `SWE-bench/SWE-bench_Lite` -> `swe-bench-lite`."""
    return data_source.rpartition("/")[2].lower().replace("_", "-")


def normalized(reference: str) -> str:
    """An image reference with its registry and repository in lower case, tag and digest as they are."""
    name, at, digest = reference.strip().partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:  # the colon, if any, is a registry's port
        repository, colon, tag = name, "", ""
    return repository.lower() + colon + tag + at + digest
