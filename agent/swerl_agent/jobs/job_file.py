"""Reads the SweRLJob of a YAML file.

Guarantees: numbers are those that kubectl reads (`1e-6` is a number); a repeated key is an error, not overwritten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from swerl_api import API_VERSION
from swerl_kube import Json

from .errors import JobCommandError

KIND = "SweRLJob"


@dataclass(frozen=True)
class JobFile:
    """The job of a file, and the other objects beside it, in their order."""

    path: str
    job: Json
    others: tuple[Json, ...] = ()

    @property
    def namespace(self) -> str | None:
        """The namespace that the file names."""
        return (self.job.get("metadata") or {}).get("namespace")


class _Loader(yaml.SafeLoader):
    """YAML 1.2 floats, and no repeated keys."""


def _mapping(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    seen = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands twice in one object; keep one", key.start_mark
                )
            seen.add(key.value)
    loader.flatten_mapping(node)
    return yaml.SafeLoader.construct_mapping(loader, node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+]?[0-9][0-9]*(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_job_file(path: Path) -> JobFile:
    """The file's one SweRLJob; raises JobCommandError."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise JobCommandError(f"{path} cannot be read: {reason}; name a YAML file with a SweRLJob") from error
    return parse_job(text, str(path))


def parse_job(text: str, path: str) -> JobFile:
    """The one SweRLJob of `text`, which came from `path`; raises JobCommandError."""
    documents = list(_objects(text, path))
    jobs = [document for document in documents if document.get("kind") == KIND]
    if len(jobs) > 1:
        named = ", ".join(str((job.get("metadata") or {}).get("name")) for job in jobs)
        raise JobCommandError(f"{path} has {len(jobs)} SweRLJobs ({named}); write one to each file")
    if not jobs:
        raise JobCommandError(_no_job(documents, path))
    return JobFile(path, jobs[0], tuple(document for document in documents if document is not jobs[0]))


def _objects(text: str, path: str) -> Iterator[Json]:
    try:
        documents = list(yaml.load_all(text, _Loader))  # a safe loader
    except yaml.YAMLError as error:
        problem = " ".join(str(error).split())
        remedy = "; indent with spaces" if "\t" in text else ""
        raise JobCommandError(f"{path} is not YAML: {problem}{remedy}") from error
    for document in documents:
        if isinstance(document, dict):
            yield document
        elif document is not None:
            raise JobCommandError(f"{path}: a document is {type(document).__name__}, not an object with kind and spec")


def _no_job(documents: list[Json], path: str) -> str:
    kinds = [document.get("kind") for document in documents]
    alike = next((kind for kind in kinds if isinstance(kind, str) and kind.lower() in ("swerljob", "swerl")), None)
    if alike:
        return f"{path}: kind {alike!r} is unknown; use kind: {KIND}"
    if any("spec" in document or "trainer" in document for document in documents if "kind" not in document):
        return f"{path}: an object has no kind; add apiVersion: {API_VERSION} and kind: {KIND}"
    found = f"; it has {', '.join(map(str, kinds))}" if kinds else ""
    return f"{path} has no {KIND}{found}; `swerl init` writes one"
