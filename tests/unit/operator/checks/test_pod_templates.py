"""What users add to Ray Pods is examined before any of them is created."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swerl_kube import BadRequest, Forbidden
from swerl_operator.checks.pod_templates import template_problems, template_references
from swerl_operator.jobs.manifests import cluster_plan
from swerl_operator.problem import Problem

from tests.unit.operator.conftest import MakeAttempt, Spec

Json = dict[str, Any]
HOST_FOLDER = {"volumes": [{"name": "lib", "hostPath": {"path": "/opt/lib"}}]}


class Api:
    """An API server that admits Pods in dry runs, except those of one group."""

    def __init__(self, refused: str = "", error: Exception | None = None) -> None:
        self.asked: list[Json] = []
        self._refused, self._error = refused, error

    async def request(self, method: str, path: str, *, body: Json, query: Mapping[str, str]) -> Json:
        assert (method, path) == ("POST", "/api/v1/namespaces/ns/pods")
        assert query == {"dryRun": "All", "fieldValidation": "Strict"}
        self.asked.append(body)
        if self._error is not None and f"-{self._refused}-" in body["metadata"]["generateName"]:
            raise self._error
        return body


async def problems(make_attempt: MakeAttempt, api: Api, *, host_paths: str = "refuse", **changes: Any) -> list[Problem]:
    return await template_problems(api, cluster_plan(make_attempt(**changes)), host_paths)  # type: ignore[arg-type]


async def test_only_groups_with_a_template_are_asked_about(make_attempt: MakeAttempt) -> None:
    api = Api()
    assert await problems(make_attempt, api, rollout={"podTemplate": {"priorityClassName": "low"}}) == []
    (pod,) = api.asked
    assert pod["spec"]["priorityClassName"] == "low" and pod["metadata"]["labels"]["swerl.dev/role"] == "engine"
    assert await problems(make_attempt, none := Api()) == [] and none.asked == []


async def test_head_is_asked_about_without_its_account(make_attempt: MakeAttempt, spec: Spec) -> None:
    api = Api()
    trainer = spec["trainer"] | {"headPodTemplate": {"annotations": {"team": "rl"}}}
    assert await problems(make_attempt, api, trainer=trainer) == []
    (pod,) = api.asked
    assert "serviceAccountName" not in pod["spec"], "the account may not exist yet"
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["metadata"]["ownerReferences"][0]["name"] == "demo"


async def test_refusal_has_the_servers_words_the_field_and_a_remedy(make_attempt: MakeAttempt, spec: Spec) -> None:
    text = 'strict decoding error: unknown field "spec.affinity.nodeAfinity"'
    api = Api("train", BadRequest("POST /pods", 400, "BadRequest", text))
    trainer = spec["trainer"] | {"podTemplate": {"affinity": {"nodeAfinity": {}}}}
    (problem,) = await problems(make_attempt, api, trainer=trainer)
    assert problem.reason == "PodRefused" and text in problem.message
    assert "change spec.trainer.podTemplate" in problem.message


async def test_used_up_quota_is_waited_for(make_attempt: MakeAttempt, spec: Spec) -> None:
    api = Api("train", Forbidden("POST /pods", 403, "Forbidden", "exceeded quota: team, requested: pods=1"))
    trainer = spec["trainer"] | {"podTemplate": {"labels": {"team": "rl"}}}
    assert await problems(make_attempt, api, trainer=trainer) == [] and len(api.asked) == 1


async def test_rights_on_nodes_need_the_administrators_leave(make_attempt: MakeAttempt, spec: Spec) -> None:
    container = {"name": "rx", "image": "daemon:1", "capabilities": ["NET_ADMIN"]}
    trainer = spec["trainer"] | {"hostNetwork": True, "podTemplate": HOST_FOLDER}
    changes: Json = {"trainer": trainer, "rollout": {"podTemplate": {"initContainers": [container]}}}
    api = Api()
    found = await problems(make_attempt, api, **changes)
    assert {problem.reason for problem in found} == {"HostPathRefused"} and api.asked == []
    texts = " ".join(problem.message for problem in found)
    for field in (
        "trainer.podTemplate.volumes",
        "trainer.hostNetwork",
        "rollout.podTemplate.initContainers[rx].capabilities",
    ):
        assert f"spec.{field}" in texts
    assert texts.count("hostPathVolumes=allow") == 3
    assert await problems(make_attempt, api, host_paths="allow", **changes) == [] and len(api.asked) == 3


def test_objects_that_templates_name_are_looked_for(make_attempt: MakeAttempt) -> None:
    volumes = [
        {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
        {"name": "topology", "configMap": {"name": "nccl-topology"}},
    ]
    plan = cluster_plan(make_attempt(rollout={"podTemplate": {"volumes": volumes}}))
    assert list(template_references(plan)) == [
        ("persistentvolumeclaims", "cache", "rollout.podTemplate.volumes"),
        ("configmaps", "nccl-topology", "rollout.podTemplate.volumes"),
    ]
