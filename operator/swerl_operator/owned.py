"""Creates, finds and deletes objects of an owner; an object of the same name with another owner is left alone.

Guarantee: a ServiceAccount, binding, file, policy, Pod, Job or RayCluster of another owner is neither used nor changed.
"""

from __future__ import annotations

from swerl_kube import Conflict, Json, KubeClient


class ForeignObject(Exception):
    """An object has the name of one that is to be created, and another owner. The message says what to do."""


async def ensure_owned(api: KubeClient, resource: str, body: Json, field: str | None = None) -> None:
    """Create `body`, or bring `field` of the existing object up to date; raises ForeignObject."""
    try:
        await api.create(resource, body)
        return
    except Conflict:
        metadata = body["metadata"]
        place = (body["apiVersion"], resource, metadata["namespace"], metadata["name"])
        found = await api.find(*place)
    owner = metadata["ownerReferences"][0]
    if found is not None and not has_owner(found, owner["uid"]):
        raise ForeignObject(foreign_message(body["kind"], metadata["namespace"], metadata["name"], owner["kind"]))
    if found is not None and field is not None and found.get(field) != body[field]:
        removed = dict.fromkeys(found.get(field, {}).keys() - body[field].keys())
        await api.patch(*place, {field: removed | body[field]})


async def find_owned(
    api: KubeClient, api_version: str, resource: str, namespace: str, name: str, owner: str
) -> Json | None:
    """The object if it exists and belongs to the object with UID `owner`."""
    found = await api.find(api_version, resource, namespace, name)
    return found if found is not None and has_owner(found, owner) else None


async def delete_owned_pod(api: KubeClient, namespace: str, name: str, owner: str) -> None:
    """Delete the Pod at once if it belongs to the object with UID `owner`."""
    pod = await find_owned(api, "v1", "pods", namespace, name, owner)
    if pod is not None:
        await api.delete("v1", "pods", namespace, name, grace_seconds=0)


def has_owner(body: Json, uid: str) -> bool:
    """Whether `body` belongs to the object with this UID."""
    return any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences") or ())


def foreign_message(kind: str, namespace: str, name: str, owner_kind: str) -> str:
    """Why an object of `owner_kind` waits, and what to do."""
    return (
        f"{kind} {name!r} in namespace {namespace!r} does not belong to this {owner_kind}; delete or rename it, or"
        f" give the {owner_kind} another name"
    )
