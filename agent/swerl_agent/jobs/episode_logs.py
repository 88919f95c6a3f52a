"""The log of one grading, and the commands of one sandbox with their outputs: from a Pod, else from the job's folder.

Guarantee: what was read is named, and where nothing is, why. The Pod of a grading reports its log at its end; that of a
sandbox logs no commands, so these come from the episode's files, while it runs and after its end alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from swerl_api.names import JOB_LABEL, ROLE_GRADING, ROLE_LABEL, ROLE_SANDBOX, SANDBOX_POD_PREFIX
from swerl_kube import Json, KubeClient, NotFound, Unavailable

from swerl_agent.episode.live import SUFFIX
from swerl_agent.grading.framing import Framer, Malformed
from swerl_agent.grading.record import RECORDS
from swerl_agent.storage import file_name
from swerl_agent.trajectories.fields import mapping
from swerl_agent.trajectories.gradings import stored_grading
from swerl_agent.trajectories.live import trajectory_so_far
from swerl_agent.trajectories.trajectory import Trajectory, Turn, read_trajectory

from .errors import JobCommandError
from .output import JobOutput, job_output, names_of

JOB_OF_POD = "batch.kubernetes.io/job-name"  # label of a Job's Pods
NAMED = 8  # episodes in a message
LIST = 'for f in artifacts/*/$1; do [ ! -f "$f" ] || echo "$f"; done'
RECORD, TRAJECTORY, LIVE = f"{RECORDS}/{{}}.json", "{}/traj.json", f"{{}}{SUFFIX}"  # files by name of an episode
_MEMBER = re.compile(r"(?P<group>.+)/(?P<index>\d+)")
_POD = re.compile(r"\d+-(?P<group>.+?)(?P<again>-[rn]\d+)?-(?P<index>\d+)")  # what follows the job's name
_EPISODE = re.compile(r"(?P<which>.+__g.*__i\d+__)(?P<ended>\d{15,20}|live\.jsonl)")


@dataclass(frozen=True)
class EpisodeLog:
    """Lines of one grading or sandbox."""

    origin: str  # where they are from, in words
    lines: Sequence[str]


async def grading_log(client: KubeClient, job: Json, name: str) -> EpisodeLog:
    """The log of the grading of episode `name`, or of the Pod or Job `name`; raises JobCommandError."""
    if pod := await _pod(client, job, ROLE_GRADING, name):
        return await _reported(client, pod)
    async with job_output(client, job) as output:
        found = await _newest(output, name, RECORD)
        if not found:
            raise JobCommandError(await _no_record(output, name))
        record = stored_grading(_object(await output.read('cat "$1"', found)))
        tests = [f"{test.outcome:9} {test.kind} {test.name}" for test in record.tests]
        return EpisodeLog(_origin(output, found), [record.reason, *tests, *record.log.splitlines()])


async def sandbox_log(client: KubeClient, job: Json, name: str) -> EpisodeLog:
    """What ran in the sandbox of episode `name`, or in the Pod `name`, and what it printed; raises JobCommandError."""
    pod = await _pod(client, job, ROLE_SANDBOX, name)
    printed = (await _log(client, pod)).decode(errors="replace").splitlines() if pod else []
    episode = episode_of_pod(name, str(job["metadata"]["name"])) if name.startswith(SANDBOX_POD_PREFIX) else name
    async with job_output(client, job) as output:
        if found := await _newest(output, episode, LIVE):
            trajectory = trajectory_so_far(await output.read('cat "$1"', found))
            return EpisodeLog(f"{_origin(output, found)}: the episode runs", [*printed, *transcript(trajectory)])
        if found := await _newest(output, episode, TRAJECTORY):
            trajectory = read_trajectory(_object(await output.read('cat "$1"', found)))
            return EpisodeLog(_origin(output, found), [*printed, *transcript(trajectory)])
        raise JobCommandError(_unknown(output, name))


def transcript(trajectory: Trajectory) -> list[str]:
    """Each command with its output as the agent saw it, its exit code and time."""
    return [line for turn in trajectory.turns for line in _ran(turn)]


def episode_of_pod(name: str, job: str) -> str:
    """GROUP/INDEX of the episode in the sandbox Pod `name`; raises JobCommandError where the name does not say it."""
    found = _POD.fullmatch(name.removeprefix(f"{SANDBOX_POD_PREFIX}{job}-"))
    if not found or found["again"]:
        raise JobCommandError(f"the name of Pod {name} does not say which episode it is for; name that as GROUP/INDEX")
    return f"{found['group']}/{found['index']}"


def episode_pattern(name: str) -> str:
    """The shell pattern of an episode's names; `name`: its folder, the beginning of that, or GROUP/INDEX."""
    member = _MEMBER.fullmatch(name)
    if member:
        return f"*__g{file_name(member['group'])}__i{member['index']}__*"
    return f"{file_name(PurePosixPath(name).name)}*"


def newest_of(paths: Sequence[str]) -> str:
    """The newest file of an episode, '' for none; raises JobCommandError where they are of several."""
    files = [(found["which"], found["ended"], path) for path in paths if (found := _EPISODE.search(path))]
    episodes = sorted({PurePosixPath(which).name for which, _, _ in files})
    if len(episodes) > 1:
        more = f" and {len(episodes) - NAMED} more" if len(episodes) > NAMED else ""
        raise JobCommandError(f"these episodes have such a name: {', '.join(episodes[:NAMED])}{more}; name one of them")
    return max(files, key=lambda each: each[1])[2] if files else ""


def _ran(turn: Turn) -> Iterator[str]:
    for command, _, content in turn.results():
        if command:
            yield from f"$ {command.action}".splitlines()
        yield from content.splitlines()
        if command:
            ended = "timed out" if command.timed_out else f"exit code {command.exit_code}"
            yield f"[{ended}{'' if command.seconds is None else f', {command.seconds:.1f} s'}]"


async def _pod(client: KubeClient, job: Json, role: str, name: str) -> Json | None:
    """The Pod of this job and role with the name, or of the Job with it."""
    labels = f"{JOB_LABEL}={job['metadata']['name']},{ROLE_LABEL}={role}"
    for pod in await client.list("v1", "pods", job["metadata"]["namespace"], labels=labels):
        if name in (pod["metadata"]["name"], (pod["metadata"].get("labels") or {}).get(JOB_OF_POD)):
            return pod
    return None


async def _log(client: KubeClient, pod: Json) -> bytes:
    """The log of the Pod's container, empty before it runs and after it is gone."""
    metadata, container = pod["metadata"], pod["spec"]["containers"][0]["name"]
    try:
        return await client.logs(metadata["namespace"], metadata["name"], container=container)
    except (NotFound, Unavailable):
        return b""


async def _reported(client: KubeClient, pod: Json) -> EpisodeLog:
    name = pod["metadata"]["name"]
    try:
        report = Framer().feed(await _log(client, pod))
    except Malformed as error:
        raise JobCommandError(f"the report in the log of Pod {name} cannot be read: {error}") from error
    if report is None:
        return EpisodeLog(f"Pod {name}, which has not ended: it reports the log of its tests at its end", [])
    return EpisodeLog(f"Pod {name}", report.log.decode(errors="replace").splitlines())


async def _newest(output: JobOutput, name: str, form: str) -> str:
    """The file, by its place in the job's folder, '' where there is none."""
    return newest_of(names_of(await output.read(LIST, form.format(episode_pattern(name)))))


async def _no_record(output: JobOutput, name: str) -> str:
    """Why there is no record of a grading."""
    if await _newest(output, name, LIVE):
        return f"episode {name} is not graded yet; `swerl logs JOB --sandbox {name}` prints its commands"
    if found := await _newest(output, name, TRAJECTORY):
        why = "its patch was not run, or the episode is older than such logs"
        return f"{PurePosixPath(found).parent} in {output.folder} has no log of a grading: {why}"
    return _unknown(output, name)


def _unknown(output: JobOutput, name: str) -> str:
    return (
        f"{output.folder} has no episode {name!r}, and no Pod of the job has that name; name an episode as"
        " `swerl trajectories ls` or, with GROUP/INDEX, the field `episode` of the driver's log does"
    )


def _origin(output: JobOutput, path: str) -> str:
    return f"{output.folder}/{path}, read in Pod {output.pod}"


def _object(content: bytes) -> Json:
    try:
        return dict(mapping(json.loads(content)))
    except (ValueError, RecursionError):
        return {}
