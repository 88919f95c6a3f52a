"""What `Sandbox.claim` takes, and what it refuses before anything is asked of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.sandbox import ClaimOptions, Sandbox, blocking
from swerl_agent.sandbox.claim import CLAIM_ONLY
from swerl_api.swesandbox import SweSandboxSpec
from swerl_kube import ClusterConfig, Credentials, KubeClient


def test_claim_options_cover_every_spec_field() -> None:
    fields = SweSandboxSpec.model_fields.keys() - {"image", "replicas", "owner"}
    assert ClaimOptions.__annotations__.keys() == fields | CLAIM_ONLY


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"egress": "some"}, "^egress: "),
        ({"count": 0}, "^count: "),
        ({"workdir": "here", "lifetime_seconds": -1}, "^workdir: .*; lifetime_seconds: "),
        ({"name": "No_Name"}, "^name: "),
        ({"outlive": 10}, "outlive must be >= 40 s"),
    ],
)
def test_invalid_option_is_named(options: dict[str, Any], message: str) -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(ValueError, match=message):
            face.claim("debian", **options)


def test_options_accept_manifest_names() -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(ValueError, match=r"^lifetime_seconds: "):
            face.claim("debian", lifetimeSeconds=-1)  # type: ignore[call-arg]


def test_blocking_claim_refuses_an_open_client() -> None:
    client = KubeClient(ClusterConfig("http://127.0.0.1:1", "ns", None, Credentials()))
    with pytest.raises(TypeError, match=r"^client: .*event loop.*kubeconfig"):
        blocking.BlockingSandbox.claim("debian", client=client)


def test_unknown_option_is_named_with_the_known_ones() -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(TypeError, match=r"no option 'memory'; the options are .*env, .*resources, "):
            face.claim("debian", memory="1Gi")  # type: ignore[call-arg]
