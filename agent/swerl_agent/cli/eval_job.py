"""`swerl eval job`: what the Pods of a SweEval run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from swerl_api import EvaluationFile, names
from swerl_kube.logs import LogSettings

from swerl_agent.evaluation.shard import Shard, merge_shards, run_shard

from .command import Options, require_one, resumes
from .options import cluster_options, open_client
from .values import PART, PATH


@click.command("job", help="Run by the Pods of a SweEval.")
@click.option(
    "--config",
    type=PATH,
    default=Path(names.JOB_FILE_DIRECTORY) / names.EVALUATION_FILE,
    help="evaluation file written by the operator",
)
@click.option("--shard", type=PART, help="run the samples of shard I (from 0) of N")
@click.option("--merge", is_flag=True, help="merge the results of all shards")
@cluster_options
@resumes
async def run_job(options: Options) -> int:
    """0 when every sample has a result or a prompt that does not render, 1 when infrastructure ended some."""
    require_one(options, shard="--shard", merge="--merge")
    try:
        file = EvaluationFile.read(options.config)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if file.spec.log_format == "json":
        ids = {"namespace": file.namespace, "evaluation": file.name}
        ids |= {"shard": options.shard[0]} if options.shard else {}
        LogSettings("json", ids).configure(sys.stderr, "WARNING")
    async with open_client(options) as client:
        if options.merge:
            summary = await merge_shards(client, file)
            print(f"{summary['resolved']} of {summary['samples']} samples resolved")
            return 0
        number, count = options.shard
        if count != file.spec.shards:
            raise click.UsageError(f"--shard {number}/{count}: {file.name} has {file.spec.shards} shards")
        shard = Shard(file, number, api_key=_api_key(file))
        return 0 if await run_shard(client, shard, kubeconfig=options.kubeconfig) else 1


def _api_key(file: EvaluationFile) -> str | None:
    """The key of the endpoint, or of the evaluation's own engines; None without one."""
    key = os.environ.get(names.API_KEY_VARIABLE, "").strip()
    if file.spec.model.endpoint is None:
        return key or None
    endpoint = file.chat_endpoint
    if endpoint is None or endpoint.api_key_secret is None:
        return None
    if not key:
        secret = endpoint.api_key_secret
        raise click.UsageError(
            f"{names.API_KEY_VARIABLE}, which holds key {secret.key!r} of Secret {secret.name!r}, is empty"
        )
    return key
