"""`swerl validate` and `swerl submit`: job files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from swerl_kube import ConfigError, KubeClient

from swerl_agent.jobs import Fault, JobFile, read_job_file, submit
from swerl_agent.jobs.validation import Validation, validate
from swerl_agent.registry import RegistryLimits

from ..command import Options, keeps, runs, together
from ..images_check import registry_credentials, registry_options
from ..options import cluster_options, open_client
from ..output import is_json, output_option, print_result
from ..values import PATH

file_argument = click.argument("file", type=PATH)
offline_option = click.option("--offline", is_flag=True, help="check without the cluster and without registries")
images_option = click.option("--no-images", is_flag=True, help="do not check images in registries")
checked_options = together(images_option, output_option, registry_options, cluster_options)


@click.command("validate", help="Check the SweRLJob in FILE, without creating anything.")
@file_argument
@offline_option
@checked_options
@runs
async def validate_file(options: Options) -> int:
    """0 without errors, else 1."""
    file = read_job_file(Path(options.file))
    if options.offline:
        found = await validate(file.job, None, file.namespace or "")
        found.unchecked += _left_to_kubectl(file)
    else:
        async with _client_of_check(options) as client:
            found = await _validated(client, options, file, beside=file.others)
    print_result(options, _document(found), _lines(found, file))
    return 1 if found.errors else 0


@click.command("submit", help="Check the SweRLJob in FILE, then create it.")
@file_argument
@click.option("--dry-run", is_flag=True, help="check only, as `swerl validate`")
@checked_options
@keeps("the job may be created: `swerl list` shows it")
async def submit_file(options: Options) -> int:
    """0 when the job was created, 1 when it has errors."""
    file = read_job_file(Path(options.file))
    async with open_client(options) as client:
        namespace = options.namespace or file.namespace or client.namespace
        found = await _validated(client, options, file)
        if found.errors or options.dry_run:
            print_result(options, _document(found), _lines(found, file))
            return 1 if found.errors else 0
        created = await submit(client, namespace, file.job)
    name = created["metadata"]["name"]
    if not is_json(options):
        notes = [*(fault.as_text() for fault in found.faults), *_left_to_kubectl(file)]
        print(*notes, sep="\n", end="\n" if notes else "", file=sys.stderr)
    lines = [f"SweRLJob {name} created in {namespace}; `swerl watch {name} -n {namespace}` follows it"]
    print_result(options, {"name": name, "namespace": namespace, "uid": created["metadata"]["uid"]}, lines)
    return 0


def _client_of_check(options: Options) -> KubeClient:
    """Of the cluster; raises ConfigError that names the check without one."""
    try:
        return open_client(options)
    except ConfigError as error:
        remedy = f"`swerl validate --offline {options.file}` checks the file without a cluster"
        raise ConfigError(f"{error}; {remedy}") from error


async def _validated(
    client: Any, options: Options, file: JobFile, *, beside: Sequence[dict[str, Any]] = ()
) -> Validation:
    limits = None if options.no_images else RegistryLimits(retries=0, plain_http=frozenset(options.plain_http))
    namespace = options.namespace or file.namespace or client.namespace
    credentials = registry_credentials(options) if limits else None
    found = await validate(file.job, client, namespace, beside=beside, registries=limits, credentials=credentials)
    found.unchecked += _left_to_kubectl(file)
    return found


def _left_to_kubectl(file: JobFile) -> list[str]:
    """What the file has beside its job."""
    named = ", ".join(f"{each.get('kind')} {(each.get('metadata') or {}).get('name')}" for each in file.others)
    remedy = f"`swerl submit` creates the SweRLJob alone, `kubectl apply -f {file.path}` creates all"
    return [f"{named}: {remedy}"] if named else []


def _document(found: Validation) -> dict[str, Any]:
    return {"faults": [fault.as_json() for fault in found.faults], "unchecked": found.unchecked}


def _lines(found: Validation, file: JobFile) -> list[str]:
    def line(fault: Fault) -> str:
        return f"{fault.level}: {fault.as_text()}"

    count = len(found.errors)
    summary = f"{file.path}: {count} error{'s' if count != 1 else ''}" if count else f"{file.path}: no errors"
    return [*map(line, found.faults), *(f"not checked: {each}" for each in found.unchecked), summary]
