"""A sandbox Pod gives hostile code nothing it does not need."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from swerl_api.base import Resources
from swerl_api.pod_metadata import MESH_ANNOTATIONS, MESH_LABELS
from swerl_operator.sandboxes.manifests import idle_command, pod_resources, sandbox_pod
from swerl_operator.sandboxes.parsed import ParsedGroup
from swerl_operator.sandboxes.settings import SandboxSettings

Groups = Callable[..., ParsedGroup]
SETTINGS = SandboxSettings()


def test_pod_has_no_token_no_privilege_and_an_end(group: Groups) -> None:
    pod = sandbox_pod(group(lifetimeSeconds=90), 2, SETTINGS)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert pod["metadata"]["name"] == "swesb-g-2"
    assert spec["automountServiceAccountToken"] is False and spec["enableServiceLinks"] is False
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 90)
    assert spec["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False and security["capabilities"]["drop"] == ["ALL"]
    assert not {"SYS_ADMIN", "NET_RAW", "NET_ADMIN", "SYS_PTRACE", "MKNOD"} & set(security["capabilities"]["add"])
    assert set(container["resources"]["limits"]) == {"cpu", "memory", "ephemeral-storage"}
    assert not {"hostNetwork", "hostPID", "hostIPC", "volumes", "hostUsers", "runtimeClassName"} & set(spec)


def test_groups_labels_are_copied_but_cannot_override(group: Groups) -> None:
    plain = group()
    resources = replace(plain, labels={**plain.labels, "swerl.dev/egress": "allow", "swerl.dev/sandbox": "other"})
    labels = sandbox_pod(resources, 0, SETTINGS)["metadata"]["labels"]
    assert (
        labels
        == {
            "swerl.dev/job": "j",
            "kueue.x-k8s.io/queue-name": "q",
            "kueue.x-k8s.io/pod-group-name": "swesb-g-uid-g",
            "swerl.dev/role": "sandbox",
            "swerl.dev/sandbox": "g",
            "swerl.dev/egress": "none",
        }
        | MESH_LABELS
    )


def test_names_resolve_only_where_the_network_is_open(group: Groups) -> None:
    assert sandbox_pod(group(), 0, SETTINGS)["spec"]["dnsConfig"]["nameservers"] == ["127.0.0.1"]
    assert sandbox_pod(group(egress="allow"), 0, SETTINGS)["spec"]["dnsPolicy"] == "Default"
    public = sandbox_pod(group(egress="internet"), 0, SETTINGS)["spec"]
    assert (public["dnsPolicy"], public["dnsConfig"]["nameservers"][0]) == ("None", "1.1.1.1")


def test_spec_reaches_the_pod(group: Groups) -> None:
    resources = group(
        env={"A": "1", "PAGER": "less"},
        runtimeClassName="gvisor",
        nodeSelector={"pool": "x"},
        tolerations=[{"key": "k", "operator": "Exists"}],
        imagePullSecrets=["s"],
        command=["tail", "-f", "/dev/null"],
        workdir="/src",
    )
    settings = SandboxSettings(host_users=False, pod_overrides={"schedulerName": "mine"})
    spec = sandbox_pod(resources, 0, settings)["spec"]
    container = spec["containers"][0]
    assert {"name": "PAGER", "value": "less"} in container["env"] and {"name": "A", "value": "1"} in container["env"]
    assert {"name": "TQDM_DISABLE", "value": "1"} in container["env"]
    assert (container["command"], container["workingDir"]) == (["tail", "-f", "/dev/null"], "/src")
    assert (spec["runtimeClassName"], spec["hostUsers"], spec["schedulerName"]) == ("gvisor", False, "mine")
    assert (spec["nodeSelector"], spec["imagePullSecrets"]) == ({"pool": "x"}, [{"name": "s"}])
    assert spec["tolerations"][0] == {"key": "k", "operator": "Exists"}
    assert sandbox_pod(group(hostUsers=True, runtimeClassName="gvisor"), 0, settings)["spec"]["hostUsers"] is True, (
        "the spec of a group overrides the operator's option"
    )


def test_kueue_annotations_mark_one_group_without_replacements(group: Groups) -> None:
    meta = sandbox_pod(group(replicas=3), 0, SETTINGS)["metadata"]
    assert meta["annotations"] == MESH_ANNOTATIONS | {
        "kueue.x-k8s.io/pod-group-total-count": "3",
        "kueue.x-k8s.io/retriable-in-group": "false",
    }
    single = sandbox_pod(group(replicas=1), 0, SETTINGS)["metadata"]
    assert single["annotations"] == MESH_ANNOTATIONS and "kueue.x-k8s.io/pod-group-name" not in single["labels"]
    without = replace(group(replicas=3), labels={"swerl.dev/job": "j"})
    meta = sandbox_pod(without, 0, SETTINGS)["metadata"]
    assert meta["annotations"] == MESH_ANNOTATIONS and not [name for name in meta["labels"] if "kueue" in name]


def test_unreachable_node_has_a_short_toleration_unless_the_spec_has_one(group: Groups) -> None:
    def tolerations_of(**spec: object) -> dict[str, object]:
        found = sandbox_pod(group(**spec), 0, SETTINGS)["spec"]["tolerations"]
        return {t.get("key"): t.get("tolerationSeconds") for t in found}

    taint_keys = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert tolerations_of() == dict.fromkeys(taint_keys, 60)
    own_toleration = {"key": taint_keys[1], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert tolerations_of(tolerations=[own_toleration]) == {taint_keys[0]: 60, taint_keys[1]: 5}
    assert tolerations_of(tolerations=[{"operator": "Exists"}]) == {None: None}


def test_requests_and_limits_are_complete() -> None:
    requested = Resources(requests={"cpu": "2", "example.com/device": "1"}, limits={"memory": "8Gi"})
    resources = pod_resources(requested, SETTINGS)
    storage = SETTINGS.default_limits["ephemeral-storage"]
    assert resources["limits"] == {
        "cpu": "2",
        "example.com/device": "1",
        "memory": "8Gi",
        "ephemeral-storage": storage,
    }
    assert resources["requests"] == {
        "cpu": "2",
        "example.com/device": "1",
        "memory": "8Gi",
        "ephemeral-storage": SETTINGS.default_requests["ephemeral-storage"],
    }


def test_small_request_does_not_become_the_limit() -> None:
    limits = pod_resources(Resources(requests={"cpu": "10m", "memory": "64Mi"}), SETTINGS)["limits"]
    assert (limits["cpu"], limits["memory"]) == (SETTINGS.default_limits["cpu"], SETTINGS.default_limits["memory"])


def handles(pid: int, number: signal.Signals) -> bool:
    """Whether the process has set a handler of the signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (number - 1) & 1)


def test_process_one_ends_at_once_on_term() -> None:
    process = subprocess.Popen(idle_command(3600), start_new_session=True)
    try:
        while not handles(process.pid, signal.SIGTERM):
            time.sleep(0.02)
        process.terminate()
        assert process.wait(timeout=20) == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # its sleep, which the end of a container would take along
