"""What each program of the cluster is built from: Go modules pinned in `cluster/go`, packages, stamps and tags."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from cluster.errors import ClusterError
from cluster.patches import SourcePatch

SOURCES = Path(__file__).parent
KUBERAY_MODULE = "github.com/ray-project/kuberay/ray-operator"


@dataclass(frozen=True)
class BuildTarget:
    """Programs that are built from one Go module of `cluster/go`."""

    name: str
    packages: tuple[str, ...]
    minutes: float = field(repr=False)  # of its cold build, on two cores with others beside it
    ldflags: str = ""
    tags: str = ""
    cgo: bool = False
    rename: dict[str, str] = field(default_factory=dict)  # Go's name of a program -> ours
    copies: dict[str, str] = field(default_factory=dict)  # "module:glob of files or folders" -> folder in the result
    patches: tuple[SourcePatch, ...] = field(default=(), repr=False)
    module: str = field(default="", repr=False)  # the folder in `cluster/go`; default: the target's name

    @property
    def folder(self) -> Path:
        return SOURCES / "go" / (self.module or self.name)


def pin(name: str, module: str) -> str:
    """Version of `module` in cluster/go/<name>/go.mod."""
    text = (SOURCES / "go" / name / "go.mod").read_text()
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", text, re.MULTILINE)
    if not found:
        raise ClusterError(f"cluster/go/{name}/go.mod does not pin {module}")
    return found.group(1)


def _kubernetes() -> BuildTarget:
    version = pin("kubernetes", "k8s.io/kubernetes")
    major, minor, _ = version.removeprefix("v").split(".")
    programs = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl")
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    packages = (*(f"k8s.io/kubernetes/cmd/{name}" for name in programs), "go.etcd.io/etcd/server/v3")
    flags = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return BuildTarget("kubernetes", packages, 7, ldflags=flags, rename={"server": "etcd"})


def _containerd() -> BuildTarget:
    module = "github.com/containerd/containerd/v2"
    programs = ("containerd", "containerd-shim-runc-v2", "ctr")
    return BuildTarget(
        "containerd",
        tuple(f"{module}/cmd/{name}" for name in programs),
        1,
        tags="no_btrfs no_devmapper no_zfs",
        ldflags=f"-X {module}/version.Version={pin('containerd', module)}",
    )


def _kuberay() -> BuildTarget:
    module = KUBERAY_MODULE
    return BuildTarget(
        "kuberay",
        (module,),
        0.3,
        module="kubernetes",
        rename={"ray-operator": "kuberay-operator"},
        copies={f"{module}:config/crd/bases/*.yaml": "crds", f"{module}:config/rbac/role.yaml": "rbac"},
    )


def _kwok() -> BuildTarget:
    """For benchmarks: nodes and Pods that exist only in the API."""
    module = "sigs.k8s.io/kwok"
    stages = {f"{module}:kustomize/stage/{kind}/fast/{kind}-*.yaml": f"{kind}-stages" for kind in ("node", "pod")}
    return BuildTarget("kwok", (f"{module}/cmd/kwok",), 2, copies=stages)


def _agent_sandbox() -> BuildTarget:
    """For benchmarks: the peer whose claims ours are compared with."""
    module = "sigs.k8s.io/agent-sandbox"
    crds = {f"{module}:k8s/crds/*.yaml": "crds"}
    return BuildTarget("agent-sandbox", (f"{module}/cmd/agent-sandbox-controller",), 2, copies=crds)


def _kueue() -> BuildTarget:
    """For `make test-kueue`: the controller, and the chart that its release installs."""
    module = "sigs.k8s.io/kueue"
    stamp = f"-X {module}/pkg/version.GitVersion={pin('kueue', module)}"
    return BuildTarget("kueue", (f"{module}/cmd/kueue",), 4, ldflags=stamp, copies={f"{module}:charts/kueue": "charts"})


def _runc() -> BuildTarget:
    module = "github.com/opencontainers/runc"
    stamp = f"-X main.version={pin('runc', module).removeprefix('v')}"
    return BuildTarget("runc", (module,), 0.3, ldflags=stamp, tags="seccomp", cgo=True)


def _gvisor() -> BuildTarget:
    """The kernel in user space, and its shim for containerd: for RuntimeClass `gvisor`."""
    module = "gvisor.dev/gvisor"
    return BuildTarget(
        "gvisor",
        (f"{module}/runsc", f"{module}/shim"),
        2,
        rename={"shim": "containerd-shim-runsc-v1"},
        patches=(
            SourcePatch(
                module,
                "pkg/shim/v1/manager.go",
                "oomScoreMax); err != nil {",
                "oomScoreMax); err != nil && !os.IsPermission(err) {",
                "a machine without CAP_SYS_RESOURCE cannot protect a shim from the OOM killer, and does without",
            ),
        ),
    )


def _helm() -> BuildTarget:
    """With stamps of its own Makefile: its version, and the Kubernetes 1.x of charts that are rendered without one."""
    module, minor = "helm.sh/helm/v3", pin("kubernetes", "k8s.io/kubernetes").split(".")[1]
    minors = (f"pkg/{each}.k8sVersionMinor={minor}" for each in ("chartutil", "lint/rules"))
    flags = (f"-X {module}/{stamp}" for stamp in (f"internal/version.version={pin('kubernetes', module)}", *minors))
    return BuildTarget("helm", (f"{module}/cmd/helm",), 0.3, ldflags=" ".join(flags), module="kubernetes")


def _buildx() -> BuildTarget:
    """For tests of the release: the program that reads its bake file."""
    module = "github.com/docker/buildx"
    stamp = f"-X {module}/version.Version={pin('buildx', module)}"
    return BuildTarget("buildx", (f"{module}/cmd/buildx",), 1.5, ldflags=stamp)


def _buildkit() -> BuildTarget:
    """For `make test-docker`: the daemon that makes the images of a release."""
    package = "github.com/moby/buildkit/cmd/buildkitd"
    return BuildTarget("buildkit", (package,), 1.5, tags="osusergo netgo static_build seccomp")


def _krew() -> BuildTarget:
    """For tests of the release: kubectl's plugin manager, and the check that its index has for a manifest."""
    module = "sigs.k8s.io/krew"
    programs = (f"{module}/cmd/krew", f"{module}/cmd/validate-krew-manifest")
    return BuildTarget("krew", programs, 0.7, rename={"krew": "kubectl-krew"})


TARGETS: dict[str, Callable[[], BuildTarget]] = {
    "kubernetes": _kubernetes,
    "containerd": _containerd,
    "runc": _runc,
    "coredns": lambda: BuildTarget("coredns", ("swerl.dev/cluster/coredns",), 2),
    "kuberay": _kuberay,
    "gate": lambda: BuildTarget("gate", ("swerl.dev/cluster/gate",), 0.1),
    "helm": _helm,
    "gvisor": _gvisor,
    "kwok": _kwok,
    "agent-sandbox": _agent_sandbox,
    "kueue": _kueue,
    "buildx": _buildx,
    "buildkit": _buildkit,
    "krew": _krew,
    "dashboards": lambda: BuildTarget("dashboards", ("swerl.dev/cluster/dashboards",), 0.2),  # for tests of the chart
}
DEFAULT_TARGETS = ("kubernetes", "containerd", "runc", "gate", "coredns", "kuberay", "helm")
