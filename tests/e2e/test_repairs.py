"""One job on the real cluster through faults in turn: an engine that freezes, a full volume, a killed rank, a killed
head, a volume that hangs. Each is repaired without help, and visible."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from demo.steps import StepFailed
from tests.e2e.limited_volume import LimitedVolume, limited_volume
from tests.e2e.product_namespace import ProductNamespace

NAME = "repairs"
STEPS = 9  # each attempt trains one or two until its fault
SIZE = 512 * 2**20
HANG_SECONDS = 15.0
FREEZE_ENGINE = "pkill -STOP -g $(pgrep -o -f swerl_trainer.engines.[c]pu)"  # the brackets: not this shell
KILL_RANK = "pkill -9 -f ray::Train[R]ank"
KILL_HEAD = "pkill -9 -f ."  # every process but the container's first, which ends without the others


@pytest.fixture(scope="module")
def volume(product_namespace: ProductNamespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LimitedVolume]:
    """The output volume of the namespace."""
    image = tmp_path_factory.mktemp("volume") / "image"
    with limited_volume(product_namespace.output, image, SIZE) as volume:
        yield volume


def in_pod(product_namespace: ProductNamespace, node_type: str, attempt: int, script: str) -> None:
    """Run a script in a Ray Pod of an attempt."""
    labels = f"swerl.dev/job={NAME},swerl.dev/attempt={attempt},ray.io/node-type={node_type}"
    (pod,) = product_namespace.objects(labels, "pods")
    product_namespace.cluster.kubectl("exec", "-n", product_namespace.namespace, pod, "--", "sh", "-c", script)


def wait_for_step(product_namespace: ProductNamespace, attempt: int) -> None:
    """Return when the attempt has trained a step, of which there is a checkpoint."""

    def trained() -> bool:
        done = [row["step"] for row in product_namespace.rows() if row["attempt"] == attempt]
        folder = product_namespace.output / NAME / "checkpoints"
        return bool(done) and (folder / f"step-{done[0]:07}" / "COMPLETE").is_file()

    product_namespace.wait(f"step of attempt {attempt}", trained, 240)


def wait_for_attempt(product_namespace: ProductNamespace, attempt: int) -> None:
    product_namespace.wait(f"attempt {attempt}", lambda: product_namespace.status(NAME).get("attempt") == attempt, 120)


@pytest.mark.timeout(1200)
def test_job_trains_through_five_faults(product_namespace: ProductNamespace, volume: LimitedVolume) -> None:
    job = product_namespace.manifest(NAME, {"steps": STEPS, "promptsPerStep": 1, "groupSize": 4})
    job["spec"]["checkpoint"] |= {"every": 1, "keepLast": 2}
    job["spec"]["rollout"]["probeSeconds"] = 8
    job["spec"]["retries"] = 5
    product_namespace.apply(job)

    wait_for_step(product_namespace, 1)
    in_pod(product_namespace, "worker", 1, FREEZE_ENGINE)
    product_namespace.wait("step after the frozen engine", lambda: replaced(product_namespace), 180)

    with volume.full():
        wait_for_attempt(product_namespace, 2)
    wait_for_step(product_namespace, 2)
    in_pod(product_namespace, "worker", 2, KILL_RANK)
    wait_for_attempt(product_namespace, 3)
    wait_for_step(product_namespace, 3)
    with contextlib.suppress(StepFailed):  # the stream ends with the container
        in_pod(product_namespace, "head", 3, KILL_HEAD)
    wait_for_attempt(product_namespace, 4)
    wait_for_step(product_namespace, 4)
    with volume.hanging():
        time.sleep(HANG_SECONDS)

    status = product_namespace.finish(NAME, 240)
    assert (status["step"], status["attempt"]) == (STEPS, 4), "a volume that hangs ends no attempt"
    rows = product_namespace.rows()
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    assert [row["attempt"] for row in rows] == sorted(row["attempt"] for row in rows)
    assert all(row["train/train_rollout_logprob_abs_diff_max"] <= 1e-4 for row in rows)
    described = product_namespace.cluster.kubectl("describe", "swerl", NAME, "-n", product_namespace.namespace)
    for shown in ("EngineLost", "EngineReplaced", "with 0 MiB free", "HeadLost", "Resumed", "VolumeSlow"):
        assert shown in described, f"{shown} is no Event: {described}"
    assert "training rank 0" in described


def replaced(product_namespace: ProductNamespace) -> bool:
    return any(row["rollout/engines_replaced"] for row in product_namespace.rows())
