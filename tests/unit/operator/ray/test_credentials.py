"""Ray's token and the engines' key: derived, never read from the namespaces that are served."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from swerl_kube import Conflict, NotFound
from swerl_operator.context import Settings
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.ray.cluster import ray_cluster
from swerl_operator.ray.credentials import CredentialSource

from tests.unit.operator.conftest import MakeAttempt

Body = dict[str, Any]
SETTINGS = Settings(lease_namespace="system", lease_name="demo-operator")
OWN = ("system", "demo-operator-key")
METADATA = {"name": "demo-ray", "namespace": "ns", "ownerReferences": [{"kind": "SweRLJob", "uid": "uid-1"}]}


class Secrets:
    """The Secrets of an API server that lets the operator read its own alone."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], Body] = {}

    async def find(self, api_version: str, resource: str, namespace: str, name: str) -> Body | None:
        assert (namespace, name) == OWN, "the operator reads no other Secret"
        return deepcopy(self.kept.get((namespace, name)))

    async def get(self, api_version: str, resource: str, namespace: str, name: str) -> Body:
        found = await self.find(api_version, resource, namespace, name)
        if found is None:
            raise NotFound("GET", 404, "NotFound", name)
        return found

    async def create(self, resource: str, body: Body) -> Body:
        key = (body["metadata"]["namespace"], body["metadata"]["name"])
        if key in self.kept:
            raise Conflict("POST", 409, "AlreadyExists", key[1])
        self.kept[key] = deepcopy(body)
        return body

    async def patch(self, api_version: str, resource: str, namespace: str, name: str, body: Body) -> Body:
        kept = self.kept[namespace, name]
        if body["metadata"]["resourceVersion"] != kept["metadata"]["resourceVersion"]:
            raise Conflict("PATCH", 409, "Conflict", name)
        kept["data"] = body["data"]
        return kept


@pytest.fixture
def api() -> Any:
    return Secrets()


async def test_another_operator_process_knows_the_same_values(api: Any) -> None:
    first = await CredentialSource(api, SETTINGS).of("uid-1")
    assert await CredentialSource(api, SETTINGS).of("uid-1") == first
    assert (
        len({first.ray_token, first.engine_key, *vars(await CredentialSource(api, SETTINGS).of("uid-2")).values()}) == 4
    )
    assert first.ray_token not in repr(first) and first.engine_key not in repr(first)


async def test_empty_secret_of_the_chart_is_filled_once(api: Any) -> None:
    api.kept[OWN] = {"metadata": {"name": OWN[1], "namespace": OWN[0], "resourceVersion": "1"}}
    first = await CredentialSource(api, SETTINGS).of("uid-1")
    assert await CredentialSource(api, SETTINGS).of("uid-1") == first


async def test_owner_gets_a_secret_of_its_own(api: Any) -> None:
    source = CredentialSource(api, SETTINGS)
    name = await source.create_secret(METADATA, "uid-1")
    assert await source.create_secret(METADATA, "uid-1") == name
    secret, found = api.kept["ns", name], await source.of("uid-1")
    assert secret["stringData"] == {"ray-token": found.ray_token, "engine-key": found.engine_key}
    assert secret["metadata"]["ownerReferences"] == METADATA["ownerReferences"]
    assert name.startswith("demo-ray-") and secret["immutable"]


async def test_secret_of_another_operators_key_is_not_used(api: Any) -> None:
    name = await CredentialSource(api, SETTINGS).create_secret(METADATA, "uid-1")
    del api.kept[OWN]
    assert await CredentialSource(api, SETTINGS).create_secret(METADATA, "uid-1") != name


def test_every_ray_container_takes_the_credentials_from_the_secret(make_attempt: MakeAttempt) -> None:
    plan = replace(cluster_plan(make_attempt()), secret="demo-ray-1")
    spec = ray_cluster(plan)["spec"]
    templates = [spec["headGroupSpec"]["template"], *(group["template"] for group in spec["workerGroupSpecs"])]
    for template in templates:
        env = {entry["name"]: entry for entry in template["spec"]["containers"][0]["env"]}
        assert env["RAY_AUTH_MODE"]["value"] == "token"
        for variable, key in (("RAY_AUTH_TOKEN", "ray-token"), ("SWERL_API_KEY", "engine-key")):
            assert env[variable]["valueFrom"] == {"secretKeyRef": {"name": "demo-ray-1", "key": key}}
