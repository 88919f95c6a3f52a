"""KubeRay in the chart: what its pinned Go module gives, when it is asked for."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.kuberay import TEMPLATE, KubeRayModule

from .queries import CHART
from .templates import manifests, objects

INSTALL = "kuberay: {install: true}"
KEEP = {"helm.sh/resource-policy": "keep"}
CRD = "config/crd/bases/ray.io_things.yaml"


@pytest.fixture(scope="module")
def module() -> KubeRayModule:
    """The version that the local cluster runs."""
    return KubeRayModule.pinned()


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return manifests(tmp_path_factory.mktemp("chart"), INSTALL)


def of_kuberay(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in found if "kuberay" in each["metadata"]["name"] or each["kind"].startswith("Custom")]


def test_template_is_that_of_the_pinned_module(module: KubeRayModule) -> None:
    assert TEMPLATE.read_text() == module.template(), "make kuberay writes it"


def test_rendered_crds_are_the_modules_without_descriptions(module: KubeRayModule, chart: dict[str, Any]) -> None:
    assert module.crds.keys() == {"rayclusters", "raycronjobs", "rayjobs", "rayservices"}
    for name, crd in module.crds.items():
        rendered = chart[f"CustomResourceDefinition/{name}.ray.io"]
        assert rendered["spec"] == crd["spec"], name
        assert crd["metadata"]["annotations"].items() < rendered["metadata"]["annotations"].items()


def test_description_goes_and_a_property_of_that_name_stays(tmp_path: Path) -> None:
    thing = {"description": "A word.", "type": "object", "properties": {"description": {"type": "string"}}}
    crd = {"spec": {"names": {"plural": "things"}, "schema": thing}}
    for path, content in ((CRD, crd), ("config/rbac/role.yaml", {"rules": []})):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(yaml.safe_dump(content))
    (found,) = KubeRayModule.read("v1", tmp_path).crds.values()
    assert found["spec"]["schema"] == {"type": "object", "properties": {"description": {"type": "string"}}}


def test_kuberay_is_installed_on_request_alone(tmp_path: Path) -> None:
    assert of_kuberay(objects(tmp_path, "")) == []


def test_everything_of_kuberay_stays_when_the_release_goes(tmp_path: Path) -> None:
    found = of_kuberay(objects(tmp_path, f"{{{INSTALL}, namespaces: [team-a]}}"))
    assert len(found) == 4 + 7
    assert [each for each in found if not KEEP.items() <= each["metadata"]["annotations"].items()] == []


def test_kuberay_has_the_rights_of_its_module(module: KubeRayModule, chart: dict[str, Any]) -> None:
    assert chart["ClusterRole/demo-kuberay"]["rules"] == module.rules
    account = [{"kind": "ServiceAccount", "name": "demo-kuberay", "namespace": "default"}]
    assert chart["ClusterRoleBinding/demo-kuberay"]["subjects"] == account
    assert chart["RoleBinding/demo-kuberay-leader"]["subjects"] == account
    assert {resource for rule in chart["Role/demo-kuberay-leader"]["rules"] for resource in rule["resources"]} == {
        "leases",
        "events",
    }


def test_kuberay_serves_the_namespaces_of_the_operator(tmp_path: Path) -> None:
    found = objects(tmp_path, f"{{{INSTALL}, namespaces: [team-a, team-b]}}")
    bindings = [each for each in found if each["metadata"]["name"] == "demo-kuberay" and "roleRef" in each]
    subjects = {each["metadata"].get("namespace"): len(each["subjects"]) for each in bindings}
    assert subjects == {None: 0, "team-a": 1, "team-b": 1}
    (deployment,) = [each for each in found if each["kind"] == "Deployment" and "kuberay" in each["metadata"]["name"]]
    assert deployment["spec"]["template"]["spec"]["containers"][0]["args"] == ["--watch-namespace=team-a,team-b"]


@pytest.mark.parametrize(
    ("values", "image"),
    [
        ("{}", "quay.io/kuberay/operator:{version}"),
        ("{tag: v1.7.0}", "quay.io/kuberay/operator:v1.7.0"),
        ("{registry: mirror.example.com/quay}", "mirror.example.com/quay/kuberay/operator:{version}"),
        ("{registry: ''}", "hub.example.com/kuberay/operator:{version}"),
    ],
)
def test_image_is_that_of_the_crds_unless_it_is_given(
    tmp_path: Path, module: KubeRayModule, values: str, image: str
) -> None:
    settings = f"{{image: {{registry: hub.example.com}}, kuberay: {{install: true, image: {values}}}}}"
    pod = manifests(tmp_path, settings)["Deployment/demo-kuberay"]["spec"]["template"]["spec"]
    assert [container["image"] for container in pod["containers"]] == [image.format(version=module.version)]


def test_lint_finds_nothing() -> None:
    command = ["helm", "lint", str(CHART), "--strict", "--set", "kuberay.install=true"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout
