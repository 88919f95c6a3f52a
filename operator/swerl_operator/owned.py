"""Creates an object of an owner; an object of the same name is used only if it belongs to the same owner.

Guarantee: a ServiceAccount, binding, file or policy of another owner is neither used nor changed.
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
    if found is not None and not is_owned_like(found, body):
        owner = metadata["ownerReferences"][0]
        raise ForeignObject(
            f"{body['kind']} {metadata['name']!r} in namespace {metadata['namespace']!r} does not belong to this"
            f" {owner['kind']}; delete or rename it, or give the {owner['kind']} another name"
        )
    if found is not None and field is not None and found.get(field) != body[field]:
        removed = dict.fromkeys(found.get(field, {}).keys() - body[field].keys())
        await api.patch(*place, {field: removed | body[field]})


def is_owned_like(found: Json, body: Json) -> bool:
    """Whether `found` has the owner that `body` names."""
    owners = {owner["uid"] for owner in found["metadata"].get("ownerReferences") or []}
    return body["metadata"]["ownerReferences"][0]["uid"] in owners
