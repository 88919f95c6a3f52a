"""`swerl eval job`: what the Pods of a SweEval run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from swerl_api import EvaluationFile, names
from swerl_kube import KubeClient

from swerl_agent.evaluation.shard import Shard, merge_shards, run_shard

from .values import part


def add_parser(parser: argparse.ArgumentParser) -> None:
    """The options of the verb."""
    default = Path(names.JOB_FILE_DIRECTORY) / names.EVALUATION_FILE
    parser.add_argument("--config", type=Path, default=default, help="evaluation file written by the operator")
    work = parser.add_mutually_exclusive_group(required=True)
    work.add_argument("--shard", type=part, metavar="I/N", help="run the samples of shard I (from 0) of N")
    work.add_argument("--merge", action="store_true", help="merge the results of all shards")
    parser.add_argument("--kubeconfig", help="default: the Pod's service account")
    parser.set_defaults(run=run_job)


async def run_job(options: argparse.Namespace) -> int:
    """0 when every sample has a result or a prompt that does not render, 1 when infrastructure ended some."""
    try:
        file = EvaluationFile.read(options.config)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    async with KubeClient.from_environment(options.kubeconfig) as client:
        if options.merge:
            summary = await merge_shards(client, file)
            print(f"{summary['resolved']} of {summary['samples']} samples resolved")
            return 0
        number, count = options.shard
        if count != file.spec.shards:
            raise argparse.ArgumentTypeError(f"--shard {number}/{count}: {file.name} has {file.spec.shards} shards")
        shard = Shard(file, number, api_key=_api_key(file))
        return 0 if await run_shard(client, shard, kubeconfig=options.kubeconfig) else 1


def _api_key(file: EvaluationFile) -> str | None:
    """The endpoint's key, when it has one."""
    endpoint = file.chat_endpoint
    if endpoint is None or endpoint.api_key_secret is None:
        return None
    key = os.environ.get(names.API_KEY_VARIABLE, "").strip()
    if not key:
        secret = endpoint.api_key_secret
        raise argparse.ArgumentTypeError(
            f"{names.API_KEY_VARIABLE}, which holds key {secret.key!r} of Secret {secret.name!r}, is empty"
        )
    return key
