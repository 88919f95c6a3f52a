"""Pods that admission refuses: a condition, or the verdict of a grading, has the API server's words.

All objects are declared once and wait beside each other. One rule of its namespace refuses the Pods of each of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from swerl_agent.grading import Grader, Verdict
from swerl_agent.tasks import Task
from swerl_api import Resources
from swerl_kube import KubeClient

from tests.control_plane.grading.conftest import repository, settings
from tests.control_plane.grading.task_image import Repository
from tests.control_plane.operator_process import Operator

from .conftest import IMAGE, Body, JobNamespace, job_body
from .evaluations import KIND, config_map, evaluation_body

__all__ = ["repository"]
Places = dict[str, JobNamespace]  # namespaces by what they refuse
USER = 1000  # of preflights, which fit the level restricted; Pods with the volume, a folder of the node, do not
SECONDS = 60  # until the condition says why
REQUESTS = {"cpu": "10m", "memory": "64Mi"}
LIMITS = {"cpu": "100m", "memory": "64Mi"}
LIMIT_RANGE = {
    "type": "Container",
    "max": {"memory": "600Mi"},
    "maxLimitRequestRatio": {"cpu": "50"},
    "default": {"cpu": "100m"},
}
A_LABEL_IS_DENIED = (
    "object.metadata.?labels.orValue({}).exists(key, object.metadata.labels[key].startsWith('denied'))"
    " && !object.metadata.?name.orValue('').endsWith('-preflight')"
)


@dataclass(frozen=True)
class Refusal:
    """A rule, and the Pod that it refuses in the namespace `place`."""

    name: str  # of the Pods' owner
    words: str  # of the API server
    place: str = "limited"
    requests: dict[str, str] = field(default_factory=lambda: REQUESTS)
    limits: dict[str, str] = field(default_factory=lambda: LIMITS)

    @property
    def resources(self) -> Body:
        return {"requests": self.requests, "limits": self.limits}

    def __str__(self) -> str:
        return self.name


LARGE, FULL = {"memory": "700Mi"}, {"ephemeral-storage": "1Gi"}
MAXIMUM = Refusal("maximum", "maximum memory usage per Container is 600Mi", "limited", REQUESTS | LARGE, LIMITS | LARGE)
QUOTA = Refusal("quota", "exceeded quota: small", "limited", REQUESTS | FULL, LIMITS | FULL)
RATIO = Refusal("ratio", "cpu max limit to request ratio per Container is 50", requests=REQUESTS | {"cpu": "1m"})
POLICY = Refusal("denied", "Pods of this team name their cost centre")
RESTRICTED = Refusal("restricted", 'violates PodSecurity "restricted:latest"', "restricted")
REFUSALS = [MAXIMUM, QUOTA, RATIO, POLICY, RESTRICTED]
# Their Pods have resources of their own, and fit the level restricted.
OF_IMAGE_SETS = [RATIO, Refusal("quota", "exceeded quota: small", "full"), Refusal("denied", POLICY.words, "full")]
OF_GRADINGS = [MAXIMUM, QUOTA, POLICY, RESTRICTED]  # no ratio: what they may use is what they ask for


@pytest.fixture(scope="module")
def places(kube: JobNamespace) -> Iterator[Places]:
    """One namespace with limits, one of Pod Security level restricted, one without room for any Pod."""
    found = {"limited": kube}
    for name, labels in (("restricted", {"pod-security.kubernetes.io/enforce": "restricted"}), ("full", {})):
        place = found[name] = JobNamespace(kube.kubeconfig, f"{kube.namespace}-{name}")
        metadata = {"name": place.namespace, "labels": labels}
        place.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        place.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=110s")
    _limit(found)
    with_policy = [found["limited"].namespace, found["full"].namespace]
    _deny(kube, with_policy)
    yield found
    kube.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", kube.namespace, check=False)
    for name in ("restricted", "full"):
        kube.kubectl("delete", "namespace", found[name].namespace, "--wait=false", check=False)


def _limit(places: Places) -> None:
    metadata = {"name": "small", "namespace": places["limited"].namespace}
    places["limited"].apply(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [LIMIT_RANGE]}}
    )
    for name, hard in (("limited", {"requests.ephemeral-storage": "512Mi"}), ("full", {"pods": "0"})):
        place = places[name]
        metadata = {"name": "small", "namespace": place.namespace}
        place.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
        place.until(
            lambda place=place: place.kubectl("get", "quota", "small", "-o", "jsonpath={.status.hard}"), bool, 60
        )


def _deny(kube: JobNamespace, namespaces: list[str]) -> None:
    """A policy that refuses Pods by their labels in these namespaces, in force; preflights pass."""
    api, metadata = "admissionregistration.k8s.io/v1", {"name": kube.namespace}
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    policy = {
        "matchConstraints": {"resourceRules": [pods]},
        "validations": [{"expression": f"!({A_LABEL_IS_DENIED})", "message": POLICY.words}],
    }
    chosen = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": namespaces}
    binding = {
        "policyName": kube.namespace,
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": {"matchExpressions": [chosen]}},
    }
    for kind, spec in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        kube.apply({"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec})
    probe = ("run", "probe", f"--image={IMAGE}", "--labels=team=denied", "--dry-run=server", "-o", "name")
    kube.until(lambda: kube.kubectl(*probe, check=False), lambda admitted: not admitted, 60)


@pytest.fixture(scope="module")
def served_namespaces(places: Places) -> list[str]:
    return [place.namespace for place in places.values()]


@pytest.fixture(scope="module")
def declared(places: Places, operator: Operator) -> Places:
    """One job, evaluation and group of sandboxes for each refusal, and the image sets."""
    for name in ("limited", "restricted"):
        config_map(places[name], "tasks", {"tasks.jsonl": ""})
        config_map(places[name], "tokenizer", {"tokenizer.json": "{}"})
    for refusal in REFUSALS:
        place = places[refusal.place]
        place.apply(_job(place, refusal))
        place.apply(_evaluation(place, refusal))
        place.apply(_sandbox(place, refusal))
    for refusal in [*OF_IMAGE_SETS, RESTRICTED]:
        places[refusal.place].apply(_object(places[refusal.place], "SweImageSet", refusal.name, {"images": [IMAGE]}))
    return places


def _object(place: JobNamespace, kind: str, name: str, spec: Body) -> Body:
    metadata = {"name": name, "namespace": place.namespace, "labels": {"swerl.dev/job": name}}
    return {"apiVersion": "swerl.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def _job(place: JobNamespace, refusal: Refusal) -> Body:
    body = job_body(place, refusal.name)
    body["spec"]["trainer"] |= {"headResources": refusal.resources, "runAsUser": USER}
    return body


def _evaluation(place: JobNamespace, refusal: Refusal) -> Body:
    body = evaluation_body(place, f"{refusal.name}-eval")
    body["spec"] |= {"resources": refusal.resources, "image": IMAGE, "runAsUser": USER}
    return body


def _sandbox(place: JobNamespace, refusal: Refusal) -> Body:
    spec = {"image": IMAGE, "workdir": "/", "resources": refusal.resources}
    return _object(place, "SweSandbox", refusal.name, spec)


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused_sandbox_is_a_condition_of_its_group(declared: Places, refusal: Refusal) -> None:
    place = declared[refusal.place]

    def messages() -> list[str]:
        return [condition["message"] for condition in place.status(refusal.name, "swesb").get("conditions", [])]

    found = place.until(messages, lambda texts: any(refusal.words in text for text in texts), SECONDS)
    assert any(refusal.words in text for text in found)


async def test_refused_grading_is_an_infrastructure_error(
    declared: Places, kubeconfig: str, repository: Repository
) -> None:
    task = repository.task(IMAGE)
    async with KubeClient.from_environment(kubeconfig) as client:
        graded = [_verdict(client, declared[refusal.place], refusal, task) for refusal in OF_GRADINGS]
        verdicts = await asyncio.gather(*graded)
    for refusal, verdict in zip(OF_GRADINGS, verdicts, strict=True):
        assert verdict.status == "infra_error" and refusal.words in verdict.detail, (refusal, verdict)


async def _verdict(client: KubeClient, place: JobNamespace, refusal: Refusal, task: Task) -> Verdict:
    limits = settings(resources=Resources(limits=refusal.limits))
    async with Grader(client, place.namespace, limits, {"swerl.dev/job": refusal.name}) as grader:
        return await grader.grade(task, task.ground_truth.patch)


@pytest.mark.parametrize("refusal", OF_IMAGE_SETS, ids=str)
def test_refused_pull_is_a_condition_of_the_image_set(declared: Places, refusal: Refusal) -> None:
    found = declared[refusal.place].until_condition(refusal.name, "Ready", "PodRefused", SECONDS, kind="sweimg")
    assert refusal.words in found["message"] and found["status"] == "False"


def test_image_set_pulls_in_a_restricted_namespace(declared: Places) -> None:
    found = declared["restricted"].until_condition(RESTRICTED.name, "Ready", "AllPresent", 180, kind="sweimg")
    assert found["status"] == "True"


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused_ray_pod_is_a_condition_of_the_job(declared: Places, refusal: Refusal) -> None:
    place = declared[refusal.place]
    place.until_condition(refusal.name, "ImagesReady", "ImagesPulled", 180)
    found = place.until_condition(refusal.name, "ClusterReady", "PodRefused", SECONDS)
    assert refusal.words in found["message"] and f"RayCluster {refusal.name}-1" in found["message"]
    assert place.status(refusal.name)["phase"] == "Blocked"


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused_shard_is_a_condition_of_the_evaluation(declared: Places, refusal: Refusal) -> None:
    place, name = declared[refusal.place], f"{refusal.name}-eval"
    place.until_condition(name, "ImagesReady", "ImagesPulled", 180, kind=KIND)
    found = place.until_condition(name, "Running", "PodRefused", SECONDS, kind=KIND)
    assert refusal.words in found["message"] and "Job" in found["message"]
