"""One run of the demo: apply the job, follow it, fetch its output, print the result."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import time
from pathlib import Path
from typing import Any

from swerl_agent.jobs.view import JobView

from cluster.layout import cluster_name, make_command, swerl_home
from demo.cluster import DemoCluster
from demo.console import console_command, demo_folder
from demo.estimate import describe, estimate_minutes
from demo.job import JOB, NAMESPACE, VOLUME_CLAIM, Images, job_manifest, job_size, volume_folder
from demo.report import draw_curve, print_trajectory, read_metrics, solved_trajectory, write_summary
from demo.setup import prepare
from demo.steps import StepFailed, Steps
from demo.view import RESPONSE_TIMEOUT, JobFollower

TIME_LIMIT = 3600.0
READER_POD = "demo-reader"  # Pod that the output is copied from on another cluster


def demo(seed: int | None = None, folder: Path | None = None) -> dict[str, Any]:
    """Set up, train, report; returns the summary. Raises StepFailed when a step cannot be done."""
    cluster = DemoCluster.from_environment()
    training_steps, samples = job_size()
    steps = Steps(estimate_minutes(swerl_home(), local=cluster.local, steps=training_steps, samples=samples))
    print(describe(steps.estimate), flush=True)
    folder = folder or demo_folder()
    started = time.monotonic()
    images = prepare(cluster, steps)
    status, view = train(cluster, job_manifest(images, seed=seed))
    steps.seconds |= {f"job_{name.lower()}": seconds for name, seconds in view.phases.items()}
    steps.seconds["total"] = round(time.monotonic() - started, 1)
    output = fetch_output(cluster, images, folder)
    summary = write_summary(folder, status, steps.seconds, read_metrics(output))
    print_result(summary, folder, output)
    return summary


def train(
    cluster: DemoCluster, job: dict[str, Any], *, response_timeout: float = RESPONSE_TIMEOUT
) -> tuple[dict[str, Any], JobView]:
    """Apply the job and follow it to its end; after a failure or Ctrl-C, delete it with its Pods."""
    print(f"• kubectl apply -f swerljob.yaml   (watch it yourself: kubectl get swerl,swesandboxes -n {NAMESPACE} -w)")
    if cluster.local:
        print(f"  {console_command()}   (in another terminal: curves and episodes in the browser)", flush=True)
    follower = JobFollower(
        lambda: cluster.get("swerljob", JOB, "--namespace", NAMESPACE), response_timeout=response_timeout
    )
    view = follower.view
    try:
        cluster.apply(job)
        status = follower.follow(TIME_LIMIT)
    except (KeyboardInterrupt, TimeoutError, StepFailed):
        print("\nstopping: deleting the job and its Pods ...", flush=True)
        cluster.kubectl("delete", "swerljob", JOB, "--namespace", NAMESPACE, "--ignore-not-found")
        cluster.wait_gone(90, "pods", "--namespace", NAMESPACE)
        raise
    print(f"  {status['phase']} after {view.elapsed().strip()}")
    if status["phase"] == "Failed":
        print(f"  {view.waiting_for()}")
    return status, view


def fetch_output(cluster: DemoCluster, images: Images, folder: Path) -> Path:
    """A copy of the job's folder below `folder`, without the checkpoints; on another cluster a Pod
    gives it.

    Raises StepFailed when the job wrote nothing.
    """
    target = folder / "output"
    shutil.rmtree(target, ignore_errors=True)
    if cluster.local:
        if not (written := volume_folder() / JOB).is_dir():
            raise StepFailed("the job wrote nothing: it failed before it had its volume; see the conditions above")
        return Path(shutil.copytree(written, target, ignore=shutil.ignore_patterns("checkpoints")))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": READER_POD, "namespace": NAMESPACE},
        "spec": {
            "restartPolicy": "Never",
            "volumes": [{"name": "output", "persistentVolumeClaim": {"claimName": VOLUME_CLAIM}}],
            "containers": [
                {
                    "name": "reader",
                    "image": images["sandbox-base"],
                    "command": ["sleep", "600"],
                    "volumeMounts": [{"name": "output", "mountPath": "/output", "readOnly": True}],
                }
            ],
        },
    }
    try:
        cluster.apply(pod)
        _copy_from_pod(cluster, target)
    finally:
        cluster.kubectl("delete", "pod", READER_POD, "--namespace", NAMESPACE, "--ignore-not-found", "--wait=false")
    return target


def _copy_from_pod(cluster: DemoCluster, target: Path) -> None:
    cluster.kubectl("wait", "--namespace", NAMESPACE, "--for=condition=Ready", f"pod/{READER_POD}", "--timeout=180s")
    exec_command = [
        "kubectl",
        "--kubeconfig",
        str(cluster.kubeconfig),
        "exec",
        "--namespace",
        NAMESPACE,
        READER_POD,
        "--",
    ]
    tar = ["tar", "-c", "-C", f"/output/{JOB}", "--exclude=checkpoints", "."]
    done = subprocess.run([*exec_command, *tar], capture_output=True)
    if done.returncode:
        raise StepFailed(f"could not read the output volume: {done.stderr.decode(errors='replace')[-500:]}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(target, filter="data")


def print_result(summary: dict[str, Any], folder: Path, output: Path) -> None:
    """The result: a solved episode, rates, the curve, paths of the output, commands for more."""
    curve = folder / "reward.png"
    draw_curve(curve, summary)
    if solved := solved_trajectory(output / "artifacts"):
        print_trajectory(solved)
    else:
        print("no episode was solved")
    rates = [
        f"{100 * rate:.0f} %" if rate is not None else "-"
        for rate in (summary["held_out_before"], summary["held_out_after"])
    ]
    print("── result ──")
    print(f"held-out tasks resolved   {rates[0]} before → {rates[1]} after training")
    print(
        f"reward mean per step      {' '.join(f'{reward:+.2f}' for reward in summary['rewards'] if reward is not None)}"
    )
    print(f"reward curve              {curve}")
    print(f"summary                   {folder / 'summary.json'}")
    print(f"episodes                  {output / 'artifacts'}  (traj.json, patch.diff, meta.json each)")
    print("── more ──")
    print(f"{console_command()}      # curves and episodes in the browser")
    print(f"export KUBECONFIG={DemoCluster.from_environment().kubeconfig}")
    print(f"kubectl get swerl {JOB} -n {NAMESPACE} -o yaml")
    print(f"kubectl get swesandboxes -n {NAMESPACE}")
    print(f"kubectl describe swerl {JOB} -n {NAMESPACE}")
    clean, remove = (make_command(target, cluster_name()) for target in ("demo-down", "cluster-down"))
    print(f"{clean}      # remove the demo, keep the cluster;  {remove} removes the cluster too")
