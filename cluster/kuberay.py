"""`python -m cluster.kuberay`: write CRDs, rights and version of the pinned KubeRay into the chart.

Guarantees: the templates render the CRDs of the Go module that the local cluster runs, without descriptions. A schema
that occurs twice is stored once, because Helm keeps the chart's files in the Secret of every revision.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cluster.build import module_sources
from cluster.targets import KUBERAY_MODULE, TARGETS, pin

ROOT = Path(__file__).resolve().parents[1]
TEMPLATE = ROOT / "charts" / "templates" / "_kuberay-module.tpl"
_MIN_SHARED = 200  # characters; a reference takes about 40
_HEADER = "{{- /* Generated from the Go module of KubeRay: make kuberay */ -}}"


@dataclass(frozen=True)
class KubeRayModule:
    """What the chart takes from the Go module."""

    version: str
    crds: Mapping[str, Any]  # by resource, without descriptions
    rules: Any  # of the operator's ClusterRole

    @classmethod
    def pinned(cls) -> KubeRayModule:
        """Of the version that the local cluster builds; downloads it where it is missing."""
        target = TARGETS["kuberay"]()
        return cls.read(pin(target.folder.name, KUBERAY_MODULE), module_sources(target, KUBERAY_MODULE))

    @classmethod
    def read(cls, version: str, folder: Path) -> KubeRayModule:
        """Of the sources in `folder`."""
        files = sorted((folder / "config/crd/bases").glob("*.yaml"))
        crds = [_without_descriptions(yaml.load(file.read_text(), yaml.CSafeLoader)) for file in files]
        rules = yaml.safe_load((folder / "config/rbac/role.yaml").read_text())["rules"]
        return cls(version, {crd["spec"]["names"]["plural"]: crd for crd in crds}, rules)

    def template(self) -> str:
        """Helm templates `swe-rl.kuberay.*`: version, rules, one for each CRD and one for each shared schema."""
        schemas = SharedSchemas(self.crds.values())
        bodies = {"version": self.version, "rules": _compact(self.rules)}
        bodies |= {name: schemas.text(crd) for name, crd in self.crds.items()}
        return "\n".join((_HEADER, *(_define(name, text) for name, text in (bodies | schemas.bodies).items()), ""))


class SharedSchemas:
    """JSON of objects in which a schema that occurs more than once is a reference to a template of its own."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._counts = Counter[str]()
        self._names: dict[str, str] = {}
        self.bodies: dict[str, str] = {}  # by name of the template
        for root in roots:
            self._count(root)

    def text(self, node: Any) -> str:
        """JSON of `node`, with references."""
        if not isinstance(node, dict | list):
            return json.dumps(node)
        plain = _compact(node)
        if len(plain) < _MIN_SHARED or self._counts[plain] < 2:
            return self._inner(node)
        if plain not in self._names:
            body = self._inner(node)
            name = self._names[plain] = f"schema{len(self._names)}"
            self.bodies[name] = body
        return f'{{{{ include "swe-rl.kuberay.{self._names[plain]}" . }}}}'

    def _inner(self, node: Any) -> str:
        if isinstance(node, list):
            return f"[{','.join(map(self.text, node))}]"
        return "{" + ",".join(f"{json.dumps(key)}:{self.text(value)}" for key, value in node.items()) + "}"

    def _count(self, node: Any) -> None:
        """Counts each schema once for each distinct parent."""
        plain = _compact(node)
        self._counts[plain] += 1
        if self._counts[plain] == 1:
            for child in _children(node):
                self._count(child)


def _define(name: str, text: str) -> str:
    return f'{{{{- define "swe-rl.kuberay.{name}" }}}}{text}{{{{ end }}}}'


def _children(node: Any) -> Iterator[Any]:
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return (value for value in values if isinstance(value, dict | list))


def _without_descriptions(node: Any, of_properties: bool = False) -> Any:
    """A copy; a property that is named `description` stays."""
    if isinstance(node, list):
        return [_without_descriptions(each) for each in node]
    if not isinstance(node, dict):
        return node
    kept = {key: value for key, value in node.items() if of_properties or key != "description"}
    return {key: _without_descriptions(value, key == "properties" and not of_properties) for key, value in kept.items()}


def _compact(node: Any) -> str:
    return json.dumps(node, separators=(",", ":"))


if __name__ == "__main__":
    TEMPLATE.write_text(KubeRayModule.pinned().template())
