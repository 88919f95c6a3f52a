"""The Pod that pulls an image runs a program of that image: it is as closed as a sandbox."""

from __future__ import annotations

from typing import Any

from swerl_api import SweImageSetSpec
from swerl_operator.images.manifests import pull_pod, pull_policy

SET: dict[str, Any] = {"metadata": {"name": "tasks", "namespace": "ns", "uid": "uid-1"}}
TAINT = {"key": "pool", "operator": "Equal", "value": "tasks", "effect": "NoSchedule"}


def pod(**spec: Any) -> dict[str, Any]:
    return pull_pod(SET, SweImageSetSpec.model_validate({"images": ["a"], **spec}), ("n1", "a"))


def test_pod_fits_pod_security_restricted() -> None:
    spec = pod()["spec"]
    assert spec["automountServiceAccountToken"] is False
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["seccompProfile"] == {"type": "RuntimeDefault"}
    (container,) = spec["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_pod_tolerates_what_its_set_tolerates() -> None:
    assert pod()["spec"]["tolerations"] == []
    assert pod(tolerations=[TAINT])["spec"]["tolerations"] == [TAINT]


def test_policy_denies_all_traffic_of_the_pods() -> None:
    spec, labels = pull_policy(SET)["spec"], pod()["metadata"]["labels"]
    assert spec["policyTypes"] == ["Ingress", "Egress"] and not spec.keys() & {"ingress", "egress"}
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
