"""Names shared by every part: labels, deterministic object names, paths inside Ray Pods.

Guarantee: each name is a pure function of the job and attempt, so that a repeated call finds what an earlier one made.
"""

from __future__ import annotations

import re

JOB_LABEL = "swerl.dev/job"
ATTEMPT_LABEL = "swerl.dev/attempt"
ROLE_LABEL = "swerl.dev/role"
SANDBOX_LABEL = "swerl.dev/sandbox"
EVALUATION_LABEL = "swerl.dev/evaluation"
IMAGE_SET_LABEL = "swerl.dev/image-set"
PROFILE_ANNOTATION = "swerl.dev/profile"  # on a SweRLJob: "step=12" traces that training step
RETRY_ANNOTATION = "swerl.dev/retry"  # on a failed SweRLJob: the number of its last attempt; another attempt starts
TASK_LABEL = "swerl.dev/task"
EGRESS_LABEL = "swerl.dev/egress"
LEASE_LABEL = "swerl.dev/lease"  # UID of the owning Lease; the orphan GC deletes the object after the Lease expires

KUBERAY_RELEASE = (
    "helm repo add kuberay https://ray-project.github.io/kuberay-helm && "
    "helm upgrade --install kuberay-operator kuberay/kuberay-operator"
)
INSTALL_KUBERAY = (
    "with this release, helm upgrade swe-rl charts/ --reuse-values --set kuberay.install=true, "
    f"or as a release of its own, {KUBERAY_RELEASE}"
)

ROLE_SANDBOX = "sandbox"
ROLE_GRADING = "grading"
ROLE_DRIVER = "driver"
ROLE_ENGINE = "engine"
ROLE_TRAIN = "train"
ROLE_PULL = "pull"
ROLE_PREFLIGHT = "preflight"
ROLE_SHARD = "shard"
ROLE_MERGE = "merge"
ROLE_CLIENT = "client"  # Lease of a client; its objects are deleted with it

SANDBOX_POD_PREFIX = "swesb-"
SANDBOX_CONTAINER = "sandbox"
GRADING_PREFIX = "swegr-"
PULL_PREFIX = "sweimg-"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"

MODEL_PATH = "/swerl/model"
TASKS_PATH = "/swerl/tasks"
EVALUATION_PATH = "/swerl/evaluation"
JUDGE_PATH = "/swerl/judge"
OUTPUT_PATH = "/swerl/output"
CHECKPOINTS_FOLDER = "checkpoints"  # in a job's folder: one folder per step
EXPORTS_FOLDER = "exports"  # in a job's folder: weights in Hugging Face format, one folder per step
SANDBOXES_FILE = "sandboxes.json"  # in a job's folder, while it runs
MODELS_FOLDER = "models"  # of an output, shared by its jobs: one folder per Hugging Face model that was downloaded
CHECKPOINTS_PATH = "/swerl/checkpoints"  # the output of the SweRLJob whose checkpoint is evaluated
PROMPTS_PATH = "/swerl/prompts"
JOB_FILE_DIRECTORY = "/etc/swerl"
JOB_FILE = "job.json"
DOWNLOAD_FAILED_CODE = 3  # exit code of a preflight; why is its termination message
EVALUATION_FILE = "evaluation.json"
PROGRESS_KEY = "progress.json"
RAY_AGENT_PORT = 52365  # Ray's dashboard agent, on every node
ROUTER_PORT = 30000  # of an evaluation's router, on the head Pod
METRICS_PORT = 9102  # of a driver's Prometheus metrics, on the head Pod
DRIVER_METRICS_PORT_NAME = "driver-metrics"  # KubeRay names that of Ray's own, 8080, "metrics"
API_KEY_VARIABLE = "SWERL_API_KEY"  # in Ray Pods: the key of engines and router; in shards: of these, or the endpoint
ERROR_PREFIX = "SWERL-ERROR:"  # starts the last line of a failed driver; the status contains the rest of that line

# Custom Ray resources. A train Pod carries one unit of TRAIN_RESOURCE per rank; an engine Pod (or a colocated train
# Pod) one unit of ENGINE_RESOURCE per engine; a judge Pod one of JUDGE_RESOURCE; the head one of ROLLOUT_RESOURCE per
# rollout worker.
TRAIN_RESOURCE = "train"
ENGINE_RESOURCE = "engine"
JUDGE_RESOURCE = "judge"
ROLLOUT_RESOURCE = "rollout"

LEASE_DURATION_SECONDS = 40  # with the operator's polls and the deletion, what it held is gone within a minute
LEASE_RENEW_SECONDS = 10


def attempt_name(job: str, attempt: int) -> str:
    """Name of the RayCluster, ConfigMap and driver Lease of one attempt."""
    return f"{job}-{attempt}"


def driver_account(job: str) -> str:
    """Name of the ServiceAccount (and RoleBinding) the driver of `job` runs as."""
    return f"{job}-driver"


def evaluation_scope(evaluation: str) -> str:
    """Job label of a SweEval's sandboxes, and name of its ConfigMap; the dot keeps it apart from any SweRLJob's."""
    return f"{evaluation}.eval"


def evaluation_account(evaluation: str) -> str:
    """Name of the ServiceAccount (and RoleBinding) the shards of a SweEval run as; it ends as a driver's does."""
    return f"{evaluation_scope(evaluation)}-driver"


def progress_name(evaluation: str, part: str) -> str:
    """Name of the ConfigMap with the progress of shard `part` (its number, or `merge`) of a SweEval."""
    return f"{evaluation_scope(evaluation)}-{part}"


def engines_name(evaluation: str) -> str:
    """Name of the RayCluster of a SweEval's engines; no attempt of a SweRLJob has such a name."""
    return f"{evaluation}-engines"


def shard_folder(number: int, shards: int) -> str:
    """Folder of shard `number` (from 0); other shares of the tasks lie in other folders."""
    return f"shard-{number}-of-{shards}"


def sandbox_pod_name(sandbox: str, ordinal: int) -> str:
    """Name of Pod `ordinal` (from 0) of the SweSandbox `sandbox`."""
    return f"{SANDBOX_POD_PREFIX}{sandbox}-{ordinal}"


def submission_id(uid: str, attempt: int) -> str:
    """Ray Jobs submission id of one attempt."""
    return f"{uid}-{attempt}"


def label_value(text: str) -> str:
    """`text` as a label value: at most 63 of the allowed characters, letters or digits at both ends."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")


def job_folder(job: str) -> str:
    """Folder of all that the SweRLJob `job` writes, relative to its output, which other jobs may share."""
    return job


def checkpoints_folder(job: str) -> str:
    """Folder of a SweRLJob's checkpoints, relative to its output."""
    return f"{job_folder(job)}/{CHECKPOINTS_FOLDER}"


def checkpoint_folder(job: str, step: int) -> str:
    """Folder of a SweRLJob's checkpoint, relative to its output."""
    return f"{checkpoints_folder(job)}/{checkpoint_name(step)}"


def model_folder(repository: str, revision: str) -> str:
    """Folder of a downloaded Hugging Face model, relative to the output."""
    return f"{MODELS_FOLDER}/{f'{repository}@{revision}'.replace('/', '--')}"


def checkpoint_name(step: int) -> str:
    """Name of the folder of one checkpoint among those of its job."""
    return f"step-{step:07d}"
