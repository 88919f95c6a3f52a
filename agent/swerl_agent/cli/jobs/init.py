"""`swerl init`: writes a SweRLJob to start from."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from swerl_api.quantity import parse_quantity
from swerl_kube import KubeError

from swerl_agent.jobs import file_faults, parse_job
from swerl_agent.jobs.init import ALGORITHM, JobOutline, job_text
from swerl_agent.jobs.installed import InstalledRelease, installed_release

from ..command import Options, keeps
from ..options import cluster_options, open_client
from ..output import is_json, output_option
from ..values import NATURAL, PATH, POSITIVE, QUANTITY

QUESTIONS: dict[str, tuple[str, Any, click.ParamType[Any]]] = {  # question, default, type of the answer
    "model": ("Model (Hugging Face id, or CLAIM:PATH)", "Qwen/Qwen3-4B", click.STRING),
    "tasks": ("Tasks (CLAIM:PATH of JSONL files, or a Hugging Face data set)", "swe-tasks:train", click.STRING),
    "output": ("PersistentVolumeClaim for checkpoints and metrics", "runs", click.STRING),
    "gpus": ("GPUs of one node (0: CPU)", JobOutline.gpus, NATURAL),
    "nodes": ("Nodes", JobOutline.nodes, POSITIVE),
}
REGISTRY_QUESTION = "Registry of the swe-rl images (HOST/PATH; empty: Docker Hub)"
CLUSTER_SECONDS = 5.0  # for the answer of a cluster, which `init` does not need


@click.command(
    "init",
    help="Write a SweRLJob with comments, in a layout that the model fits, to FILE or to standard output. On a"
    " terminal, it asks for missing options. The trainer image is that of the release that the cluster has"
    " installed, where a cluster answers. With -o json, the job is JSON, without comments.",
)
@click.argument("file", type=PATH, required=False)
@click.option("--model", metavar="MODEL", help="Hugging Face id, or CLAIM:PATH of a volume")
@click.option("--tasks", metavar="TASKS", help="CLAIM:PATH of JSONL files, or a Hugging Face data set")
@click.option("--held-out", metavar="TASKS", help="held-out tasks, for evaluation alone")
@click.option("--output-claim", "output", metavar="CLAIM", help="PersistentVolumeClaim for checkpoints and metrics")
@click.option("--gpus", type=NATURAL, metavar="N", help=f"GPUs of one node; 0: CPU (default {JobOutline.gpus})")
@click.option("--nodes", type=POSITIVE, metavar="N", help=f"nodes (default {JobOutline.nodes})")
@click.option("--gpu-memory", type=QUANTITY, default="80Gi", help="memory of one GPU (default 80Gi)")
@click.option("--name", metavar="NAME", help="name of the job (default: the model's)")
@click.option("--registry", metavar="HOST/PATH", help="registry of the swe-rl images (default: that of the operator)")
@click.option("--image", metavar="REFERENCE", help="trainer image (default: that of the release in the registry)")
@click.option("--steps", type=POSITIVE, default=ALGORITHM.steps, help=f"training steps (default {ALGORITHM.steps})")
@click.option(
    "--group-size",
    type=POSITIVE,
    default=ALGORITHM.group_size,
    help=f"episodes of a task in a step (default {ALGORITHM.group_size})",
)
@click.option(
    "--prompts",
    type=POSITIVE,
    default=ALGORITHM.prompts_per_step,
    help=f"tasks of a step (default {ALGORITHM.prompts_per_step})",
)
@click.option("--secret", metavar="NAME", help="Secret with HF_TOKEN")
@click.option("--force", is_flag=True, help="overwrite FILE")
@output_option
@cluster_options
@keeps("a FILE that was named may be incomplete")
async def write_job(options: Options) -> int:
    """0; 1 when no layout of these GPUs fits the model."""
    path = Path(options.file) if options.file else None
    if path and path.exists() and not options.force:
        raise click.UsageError(f"{path} exists; give --force to overwrite it, or name another file")
    answers = {name: _answer(name, getattr(options, name)) for name in QUESTIONS}
    outline = JobOutline(
        **answers,
        held_out=options.held_out,
        name=options.name,
        namespace=options.namespace,
        image=options.image or await _trainer_image(options, answers["gpus"]),
        steps=options.steps,
        prompts_per_step=options.prompts,
        group_size=options.group_size,
        secret=options.secret,
        gpu_memory=int(parse_quantity(options.gpu_memory)),
    )
    text = job_text(outline)
    job = parse_job(text, "the job").job
    faults = file_faults(job, outline.machines)
    text = f"{json.dumps(job, indent=2)}\n" if is_json(options) else text
    if path:
        path.write_text(text)
        print(f"{path} written; next: swerl validate {path}", file=sys.stderr)
    else:
        print(text, end="")
    print(*(f"swerl: {fault.as_text()}\n" for fault in faults), sep="", end="", file=sys.stderr)
    return 1 if faults else 0


async def _trainer_image(options: Options, gpus: int) -> str:
    """That of the installed release, of `--registry`, or of the answer; warns where its registry stays unknown."""
    if options.registry:
        return InstalledRelease(options.registry).trainer(gpus)
    if found := await _installed(options):
        return found.trainer(gpus)
    image = InstalledRelease(_asked_registry() if sys.stdin.isatty() else "").trainer(gpus)
    if image == InstalledRelease().trainer(gpus):
        text = f"spec.trainer.image is {image} of Docker Hub, because no cluster named another registry"
        print(f"swerl: warning: {text}; give --registry HOST/PATH, or --image REFERENCE", file=sys.stderr)
    return image


def _asked_registry() -> str:
    answer: str = click.prompt(REGISTRY_QUESTION, default="", show_default=False, err=True)
    return answer.strip()


async def _installed(options: Options) -> InstalledRelease | None:
    """The cluster's release; None where no cluster answers in time, or where this account may not read it."""
    with suppress(KubeError, TimeoutError, OSError):
        async with asyncio.timeout(CLUSTER_SECONDS), open_client(options) as client:
            return await installed_release(client)
    return None


def _answer(name: str, given: Any) -> Any:
    """The option's value, else the answer to its question; without a terminal the default."""
    question, default, kind = QUESTIONS[name]
    if given is not None:
        return given
    if not sys.stdin.isatty():
        if name in ("model", "tasks"):
            raise click.UsageError(f"--{name} is missing, and standard input is not a terminal; give the option")
        return default
    return click.prompt(question, default=default, type=kind, err=True)
