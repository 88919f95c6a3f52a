"""An author whose only right is the chart's `edit` role in one namespace writes objects that reach for more.

What operator, KubeRay and Kubernetes made of them is recorded from the API server, every object as it was created.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from swerl_api import API_VERSION
from swerl_api.crd import KINDS
from swerl_kube import ApiError, Forbidden, KubeClient

from tests.control_plane.operator_process import Operator

from .author_world import NUMBERS, SECONDS, SHARED_POLICIES, Effects, Scene, others, play
from .conftest import Kubectl, account_kubeconfig
from .pod_rights import excess_rights
from .reaching import HONEST, declare
from .snapshot import MADE

Json = dict[str, Any]
pytestmark = pytest.mark.alone  # Ray Pods of many jobs leave others no room on the node


@pytest.fixture(scope="module")
def scene(kubectl: Kubectl, kubeconfig: str, namespace: str, release: str, tmp_path_factory: Any) -> Iterator[Scene]:
    author, neighbour = f"{namespace}-author", f"{namespace}-neighbour"
    for name in (author, neighbour):
        assert kubectl("create", "namespace", name).returncode == 0
        assert kubectl("wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s").returncode == 0
    for place in (author, neighbour, namespace):
        done = kubectl("apply", "-n", place, "-f", "-", stdin=json.dumps(others(place, own=place == author)))
        assert done.returncode == 0, done.stderr
    role = (f"--clusterrole={release}-edit", f"--serviceaccount={author}:author")
    assert kubectl("create", "rolebinding", "author", "-n", author, *role).returncode == 0
    token = kubectl("create", "token", "author", "-n", author).stdout.strip()
    path = tmp_path_factory.mktemp("author") / "kubeconfig"
    path.write_text(json.dumps(account_kubeconfig(kubeconfig, token)))
    yield Scene(release, namespace, author, neighbour, kubeconfig, str(path))
    for kind in KINDS:
        kubectl("delete", kind.plural, "--all", "-n", author, "--wait=false")
    kubectl("delete", "namespace", author, neighbour, "--wait=false")


@pytest.fixture(scope="module")
def operator(kubectl: Kubectl, scene: Scene, tmp_path_factory: Any) -> Iterator[Operator]:
    """The operator with the chart's default rights, which are those on all namespaces; it serves the author's alone."""
    home, account = tmp_path_factory.mktemp("operator"), f"{scene.release}-operator"
    token = kubectl("create", "token", account, "-n", scene.operator, "--duration=1h").stdout.strip()
    (home / "kubeconfig").write_text(json.dumps(account_kubeconfig(scene.admins, token)))
    options = {"namespaces": scene.author, "lease_namespace": scene.operator, "lease_name": account}
    options |= {"driver_cluster_role": f"{scene.release}-driver", "sandbox_limit": "16"}
    with Operator(str(home / "kubeconfig"), home / "log", **options) as running:
        running.until_leading()
        yield running


@pytest.fixture(scope="module")
def effects(scene: Scene, operator: Operator) -> Effects:
    return asyncio.run(asyncio.wait_for(play(scene), 3 * SECONDS))


def test_fair_share_is_accepted_and_reconciled(effects: Effects) -> None:
    for kind, number in NUMBERS.items():
        accepted, refused = effects.accepted[kind.kind], effects.refused[kind.kind]
        print(f"{kind.kind}: {refused} refused, {accepted} answered by a condition")
        assert min(accepted, refused) > number / 10, f"no fair share: {refused} refused, {accepted} accepted"
    made = {plural: len(found) for plural, found in effects.made.items()}
    roles = Counter(pod["metadata"]["labels"]["swerl.dev/role"] for pod in effects.of("pods"))
    print(made, roles)
    assert min(made["rayclusters"], made["rolebindings"], made["networkpolicies"]) > 5 and made["jobs"] > 1
    assert min(roles[role] for role in ("sandbox", "pull", "preflight", "driver")) > 2


def test_nothing_of_others_is_changed(effects: Effects, scene: Scene) -> None:
    changed = {name for name, content in effects.before.items() if effects.after.get(name) != content}
    new = {name for name in effects.after.keys() - effects.before.keys() if not name.startswith(f"{scene.author}/")}
    assert changed | new <= {f"{scene.operator}/secrets/{scene.reach.secret}"}  # which the operator fills once


def test_all_that_was_made_belongs_to_an_object_of_the_author(effects: Effects) -> None:
    authors = {kind.plural for kind in KINDS}
    foreign = [
        f"{plural}/{body['metadata']['name']}"
        for plural in effects.made.keys() - authors
        for body in effects.of(plural)
        if not effects.root(body)
    ]
    assert set(foreign) <= {f"networkpolicies/{name}" for name in SHARED_POLICIES}


def test_objects_of_others_with_the_right_names_are_not_used(effects: Effects) -> None:
    assert all("ForeignObject" in found for found in effects.foreign.values()), effects.foreign


def templates(effects: Effects) -> Iterator[tuple[Json, Json]]:
    """Each Pod and Pod template that was made, and the object that holds it."""
    yield from ((pod, pod) for pod in effects.of("pods"))
    yield from ((job, job["spec"]["template"]) for job in effects.of("jobs"))
    for cluster in effects.of("rayclusters"):
        groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
        yield from ((cluster, group["template"]) for group in groups)


def test_no_pod_has_rights_on_its_node(effects: Effects) -> None:
    excess = {
        f"{body['kind']}/{body['metadata']['name']}": found
        for body, pod in templates(effects)
        if (found := excess_rights(pod["spec"], role(pod), pod["metadata"].get("annotations")))
    }
    assert excess == {}


def role(pod: Json) -> str:
    return str(pod["metadata"]["labels"]["swerl.dev/role"])


def test_pods_have_the_account_that_was_made_for_their_owner(effects: Effects, scene: Scene) -> None:
    accounts = {body["metadata"]["name"]: effects.root(body) for body in effects.of("serviceaccounts")}
    for body, pod in templates(effects):
        account = pod["spec"].get("serviceAccountName", "default")
        assert account == "default" or accounts[account] == effects.root(body)
    assert effects.of("roles") == []
    for binding in effects.of("rolebindings"):
        name = binding["metadata"]["name"]
        assert binding["roleRef"]["kind"] == "ClusterRole" and binding["roleRef"]["name"] == f"{scene.release}-driver"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": scene.author}]
        assert accounts[name] == effects.root(binding)


def test_network_policies_choose_and_admit_pods_of_their_owner(effects: Effects, scene: Scene) -> None:
    pods = [*effects.of("pods"), *effects.others]
    for policy in effects.of("networkpolicies"):
        spec = policy["spec"]
        peers = [peer for rule in spec.get("ingress", []) for peer in rule["from"]]
        namespaces = [peer.pop("namespaceSelector")["matchLabels"] for peer in peers if "namespaceSelector" in peer]
        assert all(labels == {"kubernetes.io/metadata.name": scene.operator} for labels in namespaces)
        selectors = [spec["podSelector"], *(peer["podSelector"] for peer in peers)]
        owners = {effects.root(pod) for pod in pods if any(selects(one, pod) for one in selectors)}
        if peers or spec.get("egress"):
            assert owners <= {effects.root(policy)} or policy["metadata"]["name"] in SHARED_POLICIES
        assert "" not in owners, f"{policy['metadata']['name']} selects Pods of others"


def selects(selector: Json, pod: Json) -> bool:
    labels = pod["metadata"].get("labels", {})
    expressions = selector.get("matchExpressions", [])
    assert all(one["operator"] == "Exists" for one in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        one["key"] in labels for one in expressions
    )


def test_services_and_clusters_have_no_address_outside(effects: Effects) -> None:
    assert effects.of("services")
    for service in effects.of("services"):
        assert service["spec"]["type"] == "ClusterIP" and "externalIPs" not in service["spec"]
        assert "ray.io/cluster" in service["spec"]["selector"]
    for cluster in effects.of("rayclusters"):
        head = cluster["spec"]["headGroupSpec"]
        assert not (
            cluster["spec"].get("enableInTreeAutoscaling") or head.get("enableIngress") or "headService" in head
        )


def test_operator_lives_on(effects: Effects, operator: Operator) -> None:
    assert operator.alive and operator.health("livez") == "ok\n", operator.log.read_text()[-4000:]
    failures = [line for line in operator.log.read_text().splitlines() if "Traceback" in line]
    assert failures == [], failures[0][-4000:]


async def test_author_writes_neither_elsewhere_nor_what_the_operator_writes(scene: Scene) -> None:
    async with KubeClient.from_environment(scene.authors) as author:
        for kind in KINDS:
            for place in ("default", *scene.places[1:]):
                with pytest.raises(Forbidden):
                    await author.create(kind.plural, declare(kind, "x", HONEST[kind][0]), namespace=place)
            body = declare(kind, "x", HONEST[kind][0], {"namespace": scene.neighbour})
            with pytest.raises(ApiError, match="does not match the namespace"):
                await author.create(kind.plural, body, namespace=scene.author)
            with pytest.raises(Forbidden):
                status = {"status": {"phase": "Ready"}}
                await author.patch(API_VERSION, kind.plural, scene.author, "x", status, subresource="status")
        for plural, api in MADE.items():
            with pytest.raises(Forbidden):
                await author.list(api, plural, scene.author)
