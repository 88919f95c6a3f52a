"""An author with few rights, what others have beside it, and what the author's objects cause."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from swerl_api import API_VERSION
from swerl_api.crd import KINDS, SWEEVAL, SWEIMAGESET, SWERLJOB, SWESANDBOX, Kind
from swerl_kube import ApiError, KubeClient, resource_path

from tests.chaos.test_malformed import unanswered
from tests.control_plane.sandboxes.conftest import User, versions

from .reaching import HONEST, Reach, declare, reaching_objects
from .snapshot import NAMESPACED, NETWORKING, RBAC, snapshot

Json = dict[str, Any]
NUMBERS = {SWESANDBOX: 40, SWERLJOB: 20, SWEEVAL: 30, SWEIMAGESET: 16}  # drawn
PARALLEL = 8
SECONDS = 180.0  # until all that was accepted has a condition, and until the last objects have their Pods
SHARED_POLICIES = {"swerl-deny-all", "swerl-internet-only"}  # of all sandboxes of a namespace


@dataclass(frozen=True)
class Scene:
    """Namespaces and accounts."""

    release: str
    operator: str  # namespace
    author: str  # namespace
    neighbour: str  # namespace
    admins: str  # kubeconfig
    authors: str  # kubeconfig

    @property
    def places(self) -> tuple[str, ...]:
        """Namespaces whose objects may not change."""
        return self.author, self.neighbour, self.operator, "kube-system"

    @property
    def reach(self) -> Reach:
        return Reach(self.neighbour, self.operator, f"{self.release}-operator-key")


@dataclass
class Effects:
    """What the author's objects caused."""

    accepted: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    before: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)
    foreign: dict[str, str] = field(default_factory=dict)  # conditions of those whose names lead to objects of others
    others: list[Json] = field(default_factory=list)  # Pods of others in the author's namespace
    made: dict[str, dict[str, Json]] = field(default_factory=dict)  # of each kind, by UID, as first seen

    def of(self, plural: str) -> list[Json]:
        return [*self.made[plural].values()]

    def root(self, body: Json) -> str:
        """UID of the author's object for which `body` was made; '' if there is none."""
        owners = [owner["uid"] for owner in body["metadata"].get("ownerReferences", [])]
        authors = {uid for kind in KINDS for uid in self.made[kind.plural]}
        if owners and owners[0] in authors:
            return str(owners[0])
        parents = [each[owners[0]] for each in self.made.values() if owners and owners[0] in each]
        return self.root(parents[0]) if parents else ""


def others(namespace: str, *, own: bool) -> Json:
    """What others have in `namespace`; in the author's `own` one, too, what the honest objects name."""

    def named(kind: str, name: str, api: str = "v1", labels: Json | None = None, **fields: Any) -> Json:
        return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "labels": labels or {}}, **fields}

    spec = {"schedulingGates": [{"name": "example.com/never"}], "containers": [{"name": "c", "image": "none.invalid"}]}
    claim = {"storageClassName": "", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Mi"}}}
    victim = {"swerl.dev/job": "victim", "ray.io/cluster": "victim-1"}
    subject = {"kind": "ServiceAccount", "name": "rich", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
    items = [
        *(named("ServiceAccount", name) for name in ("rich", "rich-driver", "taken-driver", "taken.eval-driver")),
        named("RoleBinding", "rich", RBAC, roleRef=role, subjects=[subject]),
        named("Pod", "database", labels={"app": "database"}, spec=spec),
        named("Pod", "victim", labels=victim, spec=spec),
        named("NetworkPolicy", "taken-ray", NETWORKING, spec={"podSelector": {"matchLabels": {"app": "database"}}}),
        named("ConfigMap", "taken-1", data={"a": "b"}),
    ]
    if own:
        suspended = HONEST[SWERLJOB][0] | {"suspend": True}
        items += [named("ServiceAccount", "author"), named("ConfigMap", "tasks", data={"tasks.jsonl": ""})]
        items += [named("PersistentVolumeClaim", "runs", spec=claim), declare(SWERLJOB, "victim", suspended)]
    else:
        items += [named(kind, "theirs", data={"a": "YQ=="}) for kind in ("ConfigMap", "Secret")]
        items.append(named("PersistentVolumeClaim", "theirs", spec=claim))
    return {"apiVersion": "v1", "kind": "List", "items": items}


async def play(scene: Scene) -> Effects:
    """The author's objects, until the honest ones, which come last, have their Pods."""
    effects = Effects()
    async with AsyncExitStack() as stack:
        admin, author = [
            await stack.enter_async_context(KubeClient.from_environment(path)) for path in (scene.admins, scene.authors)
        ]
        effects.before = await snapshot(admin, scene.release, scene.places)
        effects.others = await admin.list("v1", "pods", scene.author)
        watches = [await record(admin, scene.author, effects, plural) for plural in NAMESPACED]
        user = User(admin, scene.author)
        names = {kind: await submit(author, scene, effects, kind) for kind in KINDS}
        for kind in KINDS:
            await user.until(partial(unanswered, user, kind, names[kind]), lambda left: not left, SECONDS)
        for name, kind, spec in honest():
            await author.create(kind.plural, declare(kind, name, spec), namespace=scene.author)
        expected = {
            "jobs/h-shards-shards",
            "rayclusters/h-job-1",
            "rayclusters/h-engines-engines",
            "pods/swesb-h-box-0",
        }
        await user.until(partial(missing, effects, expected), lambda left: not left, SECONDS)
        await user.phase("h-box", "Ready", SECONDS)
        for kind in (SWEEVAL, SWERLJOB):
            answer = await user.until(
                partial(admin.get, API_VERSION, kind.plural, scene.author, "taken"), conditions, SECONDS
            )
            effects.foreign[kind.kind] = conditions(answer)
        effects.after = await snapshot(admin, scene.release, scene.places)
        for watch in watches:
            assert not watch.done(), "a watch has ended"
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)
    return effects


def honest() -> Iterator[tuple[str, Kind, Json]]:
    (shards, engines), (job,), (box,) = HONEST[SWEEVAL], HONEST[SWERLJOB], HONEST[SWESANDBOX]
    yield from (("h-shards", SWEEVAL, shards), ("h-engines", SWEEVAL, engines), ("h-job", SWERLJOB, job))
    yield from (("taken", SWEEVAL, shards), ("taken", SWERLJOB, job))  # others have objects of the names that follow
    yield "h-box", SWESANDBOX, box | {"lifetimeSeconds": 600}


def conditions(body: Json) -> str:
    """What its status says, as text."""
    return str(body.get("status", {}).get("conditions", ""))


async def missing(effects: Effects, expected: set[str]) -> set[str]:
    return expected - {f"{plural}/{body['metadata']['name']}" for plural in effects.made for body in effects.of(plural)}


async def record(admin: KubeClient, namespace: str, effects: Effects, plural: str) -> asyncio.Task[None]:
    """Notes the first version of each object made from now on."""
    path, made = resource_path(NAMESPACED[plural], plural, namespace), effects.made.setdefault(plural, {})
    version = int((await admin.request("GET", path))["metadata"]["resourceVersion"])
    old = {body["metadata"]["uid"] for body in await admin.list(NAMESPACED[plural], plural, namespace)}

    async def follow() -> None:
        async for body in versions(admin, path, version):
            if body["metadata"]["uid"] not in old:
                made.setdefault(body["metadata"]["uid"], body)

    return asyncio.create_task(follow())


async def submit(author: KubeClient, scene: Scene, effects: Effects, kind: Kind) -> set[str]:
    """Names of those that the API server took."""
    turns, names = asyncio.Semaphore(PARALLEL), set[str]()

    async def create(body: Json) -> None:
        async with turns:
            try:
                made = await author.create(kind.plural, body, namespace=scene.author)
            except ApiError as error:
                assert 400 <= error.status < 500, error
                effects.refused[kind.kind] += 1
                return
        assert "status" not in made
        effects.accepted[kind.kind] += 1
        names.add(body["metadata"]["name"])

    await asyncio.gather(*map(create, reaching_objects(kind, NUMBERS[kind], scene.reach)))
    return names
