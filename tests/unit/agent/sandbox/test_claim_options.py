"""What `Sandbox.claim` takes, and what it refuses before anything is asked of a cluster."""

from __future__ import annotations

from typing import Any

import pytest
from swerl_agent.kube import KubeClient, Token
from swerl_agent.kube.config import ClusterConfig
from swerl_agent.sandbox import ClaimOptions, Sandbox, blocking
from swerl_agent.sandbox.claim import OF_THE_CLAIM
from swerl_api.swesandbox import SweSandboxSpec


def test_every_field_of_a_sandbox_can_be_given() -> None:
    fields = SweSandboxSpec.model_fields.keys() - {"image", "replicas", "owner"}
    assert ClaimOptions.__annotations__.keys() == fields | OF_THE_CLAIM


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"egress": "some"}, "^egress: "),
        ({"count": 0}, "^count: "),
        ({"workdir": "here", "lifetime_seconds": -1}, "^workdir: .*; lifetime_seconds: "),
        ({"name": "No_Name"}, "^name: "),
        ({"outlive": 10}, "outlive is 40 seconds at least"),
    ],
)
def test_an_option_that_does_not_fit_is_named(options: dict[str, Any], message: str) -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(ValueError, match=message):
            face.claim("debian", **options)


def test_an_option_may_be_given_as_files_name_it() -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(ValueError, match=r"^lifetime_seconds: "):
            face.claim("debian", lifetimeSeconds=-1)  # type: ignore[arg-type]


def test_a_blocking_claim_refuses_a_client_of_another_event_loop() -> None:
    client = KubeClient(ClusterConfig("http://127.0.0.1:1", "ns", None, Token()))
    with pytest.raises(TypeError, match=r"^client: .*event loop.*kubeconfig"):
        blocking.BlockingSandbox.claim("debian", client=client)


def test_an_option_that_does_not_exist_is_named_with_those_that_do() -> None:
    for face in (Sandbox, blocking.BlockingSandbox):
        with pytest.raises(TypeError, match=r"no option 'memory'; there are .*env, .*resources, "):
            face.claim("debian", memory="1Gi")  # type: ignore[call-arg]
