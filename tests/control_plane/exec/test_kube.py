"""The API client against a real API server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from swerl_kube import BadRequest, Conflict, KubeClient, NotFound

from tests.control_plane.exec.conftest import until

if TYPE_CHECKING:
    from .conftest import Json, MakePod


def config_map(name: str, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"t": "1"}}, "data": data}


async def test_objects_are_made_read_changed_and_deleted(client: KubeClient, namespace: str) -> None:
    created = await client.create("configmaps", config_map("a", x="1", y="2"), namespace=namespace)
    changed = await client.patch("v1", "configmaps", namespace, "a", {"data": {"x": None, "z": "3"}})
    assert changed["data"] == {"y": "2", "z": "3"}
    assert (await client.get("v1", "configmaps", namespace, "a"))["metadata"]["uid"] == created["metadata"]["uid"]
    listed = await client.list("v1", "configmaps", namespace, labels="t=1")
    assert [item["metadata"]["name"] for item in listed] == ["a"]
    with pytest.raises(Conflict):
        await client.delete("v1", "configmaps", namespace, "a", uid="00000000-0000-0000-0000-000000000000")
    await client.delete("v1", "configmaps", namespace, "a", uid=created["metadata"]["uid"])
    with pytest.raises(NotFound, match="configmaps"):
        await client.get("v1", "configmaps", namespace, "a")


async def test_errors_are_typed_and_name_the_cause(client: KubeClient, namespace: str) -> None:
    await client.create("configmaps", config_map("twice"), namespace=namespace)
    with pytest.raises(Conflict) as caught:
        await client.create("configmaps", config_map("twice"), namespace=namespace)
    assert caught.value.already_exists and "twice" in str(caught.value)
    with pytest.raises(BadRequest, match="Invalid value"):
        await client.create("configmaps", config_map("Not A Name"), namespace=namespace)


async def test_watch_reports_existing_objects_and_changes(client: KubeClient, namespace: str) -> None:
    await client.create("configmaps", config_map("w1"), namespace=namespace)
    events = client.watch("v1", "configmaps", namespace, labels="t=1")
    changes: list[tuple[str, str]] = []

    async def collect() -> None:
        async for event in events:
            changes.append((event.type, event.object["metadata"]["name"]))
            if event.type == "DELETED" and changes[-1][1] == "w2":
                return

    task = asyncio.create_task(collect())

    async def first() -> bool:
        return ("ADDED", "w1") in changes

    await until(first, "the first object is seen")
    await client.create("configmaps", config_map("w2"), namespace=namespace)
    await client.patch("v1", "configmaps", namespace, "w2", {"data": {"x": "1"}})
    await client.delete("v1", "configmaps", namespace, "w2")
    await asyncio.wait_for(task, 30)
    assert [pair for pair in changes if pair[1] == "w2"] == [("ADDED", "w2"), ("MODIFIED", "w2"), ("DELETED", "w2")]


async def test_logs_are_read_up_to_a_limit(client: KubeClient, namespace: str, make_pod: MakePod) -> None:
    pod = await make_pod(command=["sh", "-c", "seq 1 1000; sleep 600"])
    name = pod["metadata"]["name"]

    async def read_log() -> bytes:
        log = await client.logs(namespace, name)
        return log if log.endswith(b"1000\n") else b""

    log = await until(read_log, "the log is whole")
    assert log.startswith(b"1\n2\n")
    assert await client.logs(namespace, name, limit_bytes=5) == b"1\n2\n3"
