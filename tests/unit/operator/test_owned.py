"""Objects that exist already are used only if they belong to the same owner."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from swerl_kube import Conflict
from swerl_operator.owned import ForeignObject, delete_owned_pod, ensure_owned, find_owned

Body = dict[str, Any]


class Api:
    """An API server with at most one object."""

    def __init__(self, kept: Body | None = None) -> None:
        self.kept = kept
        self.patches: list[Body] = []

    async def create(self, resource: str, body: Body) -> Body:
        if self.kept is not None:
            raise Conflict("POST", 409, "AlreadyExists", body["metadata"]["name"])
        self.kept = deepcopy(body)
        return body

    async def find(self, api_version: str, resource: str, namespace: str, name: str) -> Body | None:
        return self.kept

    async def delete(self, api_version: str, resource: str, namespace: str, name: str, **_: Any) -> bool:
        self.kept = None
        return True

    async def patch(self, api_version: str, resource: str, namespace: str, name: str, body: Body) -> None:
        self.patches.append(body)


def config_map(owner: str | None, **data: str) -> Body:
    owners = [{"kind": "SweRLJob", "name": "demo", "uid": owner}] if owner else []
    metadata: Body = {"name": "demo-1", "namespace": "ns", "ownerReferences": owners}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def ensure(api: Api, body: Body, field: str | None = "data") -> None:
    await ensure_owned(api, "configmaps", body, field)  # type: ignore[arg-type]


async def test_missing_object_is_created() -> None:
    api = Api()
    await ensure(api, config_map("uid-1", a="1"))
    assert api.kept == config_map("uid-1", a="1") and not api.patches


@pytest.mark.parametrize("owner", [None, "uid-2"])
async def test_object_of_another_owner_is_refused_by_name(owner: str | None) -> None:
    api = Api(config_map(owner, a="0"))
    with pytest.raises(ForeignObject, match="ConfigMap 'demo-1' in namespace 'ns' does not belong to this SweRLJob"):
        await ensure(api, config_map("uid-1", a="1"))
    assert not api.patches


async def test_own_object_is_brought_up_to_date_once() -> None:
    api = Api(config_map("uid-1", a="0", b="stale"))
    await ensure(api, config_map("uid-1", a="1"))
    assert api.patches == [{"data": {"a": "1", "b": None}}]
    await ensure(Api(config_map("uid-1", a="1")), config_map("uid-1", a="1"))


async def test_own_object_without_a_changing_field_stays_as_it_is() -> None:
    api = Api(config_map("uid-1", a="0"))
    await ensure(api, config_map("uid-1", a="1"), None)
    assert not api.patches


@pytest.mark.parametrize(("owner", "is_own"), [("uid-1", True), ("uid-2", False), (None, False)])
async def test_only_own_objects_are_found_and_deleted(owner: str | None, is_own: bool) -> None:
    api: Any = Api(kept := config_map(owner))
    found = await find_owned(api, "v1", "configmaps", "ns", "demo-1", "uid-1")
    assert found == (kept if is_own else None)
    await delete_owned_pod(api, "ns", "demo-1", "uid-1")
    assert (api.kept is None) is is_own
