"""A SweEval from its first look to its end, over an API server in memory: what is made, and what is left."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from swerl_kube import Conflict
from swerl_operator.context import OperatorContext, Settings
from swerl_operator.evals.reconciler import EvalReconciler
from swerl_operator.metrics import Metrics
from swerl_operator.ray.jobs import DriverState, RayHead, Submission

from .conftest import Spec

KEY = ("ns", "nightly")
Body = dict[str, Any]


class Api:
    """Objects by (resource, name); kinds of the cluster that a test does not make are there."""

    def __init__(self, spec: Spec) -> None:
        metadata = {"name": "nightly", "namespace": "ns", "uid": "uid-1", "generation": 1, "resourceVersion": "1"}
        self.kept: dict[tuple[str, str], Body] = {("sweevals", "nightly"): {"metadata": metadata, "spec": spec}}
        for resource, name in (
            ("clusterroles", "swe-rl-driver"), ("persistentvolumeclaims", "models"), ("persistentvolumeclaims", "runs"),
        ):  # fmt: skip
            self.kept[resource, name] = {"metadata": {"name": name}}

    @property
    def evaluation(self) -> Body:
        return self.kept["sweevals", "nightly"]

    def names(self, resource: str) -> list[str]:
        return [name for kind, name in self.kept if kind == resource]

    async def find(self, api_version: str, resource: str, namespace: str | None, name: str) -> Body | None:
        return deepcopy(self.kept.get((resource, name)))

    async def get(self, api_version: str, resource: str, namespace: str | None, name: str) -> Body:
        return deepcopy(self.kept[resource, name])

    async def list(
        self, api_version: str, resource: str, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Body]:
        found = [body for (kind, _), body in self.kept.items() if kind == resource]
        return deepcopy([body for body in found if matches(body, labels) and has_fields(body, fields)])

    async def create(self, resource: str, body: Body) -> Body:
        key = (resource, body["metadata"]["name"])
        if key in self.kept:
            raise Conflict("POST", 409, "AlreadyExists", key[1])
        self.kept[key] = deepcopy(body)
        return body

    async def patch(
        self, api_version: str, resource: str, namespace: str | None, name: str, body: Body, *, subresource: str = ""
    ) -> Body:
        kept = self.kept[resource, name]
        for part in ("status", "data"):
            kept[part] = {**kept.get(part, {}), **body.get(part, {})}
            kept[part] = {key: value for key, value in kept[part].items() if value is not None}
        return kept

    async def delete(self, api_version: str, resource: str, namespace: str | None, name: str, **_: Any) -> bool:
        return self.kept.pop((resource, name), None) is not None

    async def delete_all(self, api_version: str, resource: str, namespace: str, *, labels: str) -> None:
        for key in [k for k, body in self.kept.items() if k[0] == resource and matches(body, labels)]:
            del self.kept[key]

    async def request(self, method: str, url: str, **_: Any) -> Body:
        return {"resources": [{"name": "rayclusters"}]}


def matches(body: Body, selector: str) -> bool:
    """`a=b`, `a in (b,c)`, joined by commas."""
    labels = body["metadata"].get("labels", {})
    for part in filter(None, selector.replace(",swerl.dev", ";swerl.dev").replace(",ray.io", ";ray.io").split(";")):
        key, _, values = part.partition(" in ") if " in " in part else part.partition("=")
        if labels.get(key) not in values.strip("()").split(","):
            return False
    return True


def has_fields(body: Body, selector: str) -> bool:
    """`a.b=c`, joined by commas."""
    for part in filter(None, selector.split(",")):
        path, _, value = part.partition("=")
        found: Any = body
        for key in path.split("."):
            found = found.get(key, {})
        if found != value:
            return False
    return True


class Ray:
    """A Ray head that accepts every submission."""

    def __init__(self) -> None:
        self.drivers: dict[str, DriverState] = {}
        self.serving = 0

    async def driver(self, head: RayHead, submission: str) -> DriverState:
        return self.drivers.get(submission, DriverState("absent"))

    async def ready_engines(self, head: RayHead) -> int:
        return self.serving

    async def submit(self, head: RayHead, driver: Submission) -> bool:
        self.drivers[driver.id] = DriverState("running")
        return True


class ReconciledEval:
    """The reconciler over both."""

    def __init__(self, spec: Spec, *, capacity_check: str = "off") -> None:
        self.api, self.ray = Api(spec), Ray()
        settings = Settings(capacity_check=capacity_check)
        context = OperatorContext(settings, self.api, Metrics())  # type: ignore[arg-type]
        self._reconciler = EvalReconciler(context, self.ray)  # type: ignore[arg-type]

    async def reconcile(self, times: int = 1) -> Body:
        """The status after some looks."""
        for _ in range(times):
            await self._reconciler.reconcile(KEY)
        status: Body = self.api.evaluation.get("status", {})
        return status

    def pass_preflight(self) -> None:
        pod = self.api.kept["pods", "nightly-preflight"]
        ended = [
            {"name": container["name"], "state": {"terminated": {"exitCode": 0}}}
            for container in pod["spec"]["containers"]
        ]
        pod["status"] = {"phase": "Succeeded", "containerStatuses": ended}

    def end(self, job: str, how: str = "Complete") -> None:
        self.api.kept["jobs", job]["status"] = {"conditions": [{"type": how, "status": "True"}]}

    def report_progress(self, part: str, **progress: Any) -> None:
        owner = [{"uid": "uid-1"}]
        metadata = {
            "name": f"nightly.eval-{part}", "labels": {"swerl.dev/evaluation": "nightly"}, "ownerReferences": owner,
        }  # fmt: skip
        data = {"progress.json": json.dumps(progress)}
        self.api.kept["configmaps", metadata["name"]] = {"metadata": metadata, "data": data}


def find(status: Body, type: str) -> Body:
    found: Body = next(one for one in status["conditions"] if one["type"] == type)
    return found


def validated(status: Body) -> Body:
    return find(status, "Validated")


@pytest.fixture
def reconciled(spec: Spec) -> ReconciledEval:
    return ReconciledEval(spec)


async def test_evaluation_with_an_endpoint_completes_and_cleans_up(reconciled: ReconciledEval) -> None:
    await reconciled.reconcile(2)
    reconciled.pass_preflight()
    await reconciled.reconcile()
    assert reconciled.api.names("jobs") == ["nightly-shards"]
    assert (reconciled.api.names("serviceaccounts"), reconciled.api.names("configmaps")) == (
        ["nightly.eval-driver"],
        ["nightly.eval"],
    )
    reconciled.report_progress("0", total=8, done=3, resolved=1, errors=0)
    assert (await reconciled.reconcile())["progress"] == "3/8"
    reconciled.end("nightly-shards")
    assert (await reconciled.reconcile(2))["phase"] == "Merging"
    reconciled.end("nightly-merge")
    reconciled.report_progress("merge", total=8, done=8, resolved=5, errors=0, rate=0.625, passAtK={"1": 0.625})
    status = await reconciled.reconcile(3)
    assert (status["phase"], status["resolved"], status["passAtK"]) == ("Complete", 5, {"1": 0.625})
    assert not [name for kind in ("jobs", "pods", "configmaps") for name in reconciled.api.names(kind)]


async def test_engines_are_created_submitted_awaited_and_deleted(engine_spec: Spec) -> None:
    source = {"image": {"reference": "data:1", "path": "/data/model"}}
    reconciled = ReconciledEval(engine_spec | {"model": {"source": source}})
    await reconciled.reconcile(2)
    reconciled.pass_preflight()
    await reconciled.reconcile()
    assert reconciled.api.names("rayclusters") == ["nightly-engines"] and reconciled.api.names("jobs") == []
    labels = {
        "swerl.dev/evaluation": "nightly", "swerl.dev/role": "driver", "ray.io/node-type": "head",
        "ray.io/cluster": "nightly-engines",
    }  # fmt: skip
    head = {"metadata": {"name": "head", "labels": labels}, "status": {"phase": "Running", "podIP": "10.0.0.1"}}
    head["status"]["containerStatuses"] = [{"name": "istio-proxy", "ready": False}]
    reconciled.api.kept["pods", "head"] = head
    status = await reconciled.reconcile()
    assert "container istio-proxy of Pod head, which is not ours" in find(status, "ModelReady")["message"]
    status = await reconciled.reconcile(2)
    assert status["submission"] == "uid-1-0" and reconciled.api.names("jobs") == []
    reconciled.ray.serving = 1
    await reconciled.reconcile()
    assert reconciled.api.names("jobs") == ["nightly-shards"]
    (secret,) = [name for name in reconciled.api.names("secrets") if name.startswith("nightly-engines-")]
    key = {"name": "SWERL_API_KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "engine-key"}}}
    engines = reconciled.api.kept["rayclusters", "nightly-engines"]["spec"]["workerGroupSpecs"][0]
    for made in (reconciled.api.kept["jobs", "nightly-shards"]["spec"], engines):
        assert key in made["template"]["spec"]["containers"][0]["env"], "clients and engines have the same key"
    reconciled.end("nightly-shards")
    await reconciled.reconcile(2)
    assert reconciled.api.names("rayclusters") == [] and reconciled.api.names("jobs") == [
        "nightly-shards",
        "nightly-merge",
    ]


async def test_objects_of_an_earlier_evaluation_are_waited_for(reconciled: ReconciledEval) -> None:
    owner = {"kind": "SweEval", "name": "nightly", "uid": "uid-0"}
    old = {"kind": "Job", "metadata": {"name": "nightly-shards", "ownerReferences": [owner]}, "status": {}}
    reconciled.api.kept["jobs", "nightly-shards"] = old
    status = await reconciled.reconcile(2)
    assert status["phase"] == "Blocked" and reconciled.api.names("pods") == []
    assert validated(status)["reason"] == "NameInUse"
    del reconciled.api.kept["jobs", "nightly-shards"]
    await reconciled.reconcile()
    assert reconciled.api.names("pods") == ["nightly-preflight"]


async def test_objects_of_others_are_named_and_left_alone(reconciled: ReconciledEval) -> None:
    for resource, kind, name in (("jobs", "Job", "nightly-shards"), ("pods", "Pod", "nightly-preflight")):
        reconciled.api.kept[resource, name] = {"kind": kind, "metadata": {"name": name, "labels": {}}}
    found = validated(await reconciled.reconcile(3))
    assert found["reason"] == "ForeignObject"
    assert "Job 'nightly-shards' in namespace 'ns' does not belong to this SweEval" in found["message"]
    assert reconciled.api.names("pods") == ["nightly-preflight"] and reconciled.api.names("jobs") == ["nightly-shards"]


async def test_suspending_deletes_the_shards_and_resuming_creates_them_again(reconciled: ReconciledEval) -> None:
    await reconciled.reconcile(2)
    reconciled.pass_preflight()
    await reconciled.reconcile()
    reconciled.api.evaluation["spec"]["suspend"] = True
    assert (await reconciled.reconcile(2))["phase"] == "Suspended" and reconciled.api.names("jobs") == []
    reconciled.api.evaluation["spec"]["suspend"] = False
    await reconciled.reconcile(2)
    reconciled.pass_preflight()
    await reconciled.reconcile()
    assert reconciled.api.names("jobs") == ["nightly-shards"]


async def test_missing_objects_are_reported_together(reconciled: ReconciledEval) -> None:
    del reconciled.api.kept["persistentvolumeclaims", "models"], reconciled.api.kept["persistentvolumeclaims", "runs"]
    status = await reconciled.reconcile(2)
    (condition,) = status["conditions"]
    assert condition["reason"] == "VolumeClaimMissing"
    for message in ("'models' named by spec.model.endpoint.tokenizer", "'runs' named by spec.output.volume"):
        assert message in condition["message"]
    assert reconciled.api.names("pods") == []


@pytest.mark.parametrize("kind", ["sandbox", "grading"])
async def test_without_a_node_that_could_hold_an_episode_nothing_starts(spec: Spec, kind: str) -> None:
    allocatable = {"cpu": "8", "memory": "64Gi", "ephemeral-storage": "50Gi", "pods": "110"}
    node = {"metadata": {"name": "node"}, "status": {"allocatable": allocatable}}
    reconciled = ReconciledEval(spec | {kind: {"resources": {"requests": {"cpu": "64"}}}}, capacity_check="enforce")
    reconciled.api.kept["nodes", "node"] = node
    status = await reconciled.reconcile(2)
    (condition,) = status["conditions"]
    assert (status["phase"], condition["reason"]) == ("Blocked", "InsufficientResources")
    assert f"lower spec.{kind}.resources" in condition["message"] and reconciled.api.names("pods") == []
    fitting = ReconciledEval(spec, capacity_check="enforce")
    fitting.api.kept["nodes", "node"] = node
    await fitting.reconcile(2)
    assert fitting.api.names("pods") == ["nightly-preflight"]


async def test_engines_on_several_nodes_need_a_shared_output_volume(engine_spec: Spec) -> None:
    source = {"source": {"image": {"reference": "data:1", "path": "/data/model"}}}
    engines = {"image": "engines:1", "engines": 2, "resources": {"requests": {"cpu": "5"}}}
    reconciled = ReconciledEval(engine_spec | {"model": source, "rollout": engines}, capacity_check="auto")
    allocatable = {"cpu": "8", "memory": "64Gi", "ephemeral-storage": "50Gi", "pods": "110"}
    for name in ("a", "b"):
        metadata = {"name": name, "labels": {"eks.amazonaws.com/nodegroup": "gpu"}}
        reconciled.api.kept["nodes", name] = {"metadata": metadata, "status": {"allocatable": allocatable}}
    claim = {"metadata": {"name": "runs"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    reconciled.api.kept["persistentvolumeclaims", "runs"] = claim
    status = await reconciled.reconcile(2)
    assert (status["phase"], validated(status)["reason"]) == ("Blocked", "VolumeNotShared")
    assert "spec.output.volume is ReadWriteOnce" in validated(status)["message"]
    claim["spec"]["accessModes"] = ["ReadWriteMany"]
    await reconciled.reconcile(2)
    assert reconciled.api.names("pods") == ["nightly-preflight"]
