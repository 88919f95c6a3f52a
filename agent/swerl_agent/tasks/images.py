"""Names of task images.

Guarantee: the same row gives the same name everywhere; the two public namespaces keep their own separators (`_s_` and
`_1776_`), which are not interchangeable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Substring of the data source -> (namespace, what stands for the "__" of an instance id).
NAMESPACES = {
    "swe-gym": ("docker.io/xingyaoww", "_s_"),
    "swe-bench": ("docker.io/swebench", "_1776_"),
}


def image_name(row: Mapping[str, Any], data_source: str) -> str:
    """Image of a dataset row: its own `image`, `image_name` or `docker_image`, else the data source's public name.

    Raises ValueError for an image that is no string, and for a row without one whose data source has no naming rule.
    """
    for key in ("image", "image_name", "docker_image"):
        image = row.get(key)
        if image and not isinstance(image, str):
            raise ValueError(f"field {key} is {type(image).__name__}, not a string")
        if image:
            return str(image).lower()
    for marker, (namespace, separator) in NAMESPACES.items():
        if marker in data_source.lower():
            instance = str(row["instance_id"]).replace("__", separator)
            return f"{namespace}/sweb.eval.x86_64.{instance}:latest".lower()
    raise ValueError(
        f"no image: the row has none of image, image_name, docker_image, and data source {data_source!r} is none of"
        f" {', '.join(NAMESPACES)}"
    )
