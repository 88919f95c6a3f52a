"""`swerl trajectories`; `audit` finds commands of episodes that may be attempts to cheat."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

import click

from swerl_agent.audit import RULES, AuditedTrajectory, AuditFinding, TrajectoryError, findings, read_trajectories
from swerl_agent.visible import visible

from .command import Group, Options, runs
from .output import is_json, output_option, print_result
from .values import PATH

MEMBERS = {
    "ls": (".trajectory_lists:list_episodes", "list episodes with task, step, verdict, reward and turns"),
    "show": (".trajectory_lists:show_episode", "print an episode: turns, results, verdict and patch"),
    "diff": (".trajectory_lists:diff_patches", "compare the patches of two episodes"),
    "export": (".trajectory_files:export_folder", "write episodes for `harbor view` or `inspect view`"),
    "import": (".trajectory_files:import_files", "store trajectories of mini-swe-agent and SWE-agent as episodes"),
}
command = Group(
    "trajectories", help="List, show, audit, export and import the trajectories of episodes.", members=MEMBERS
)
RULE_HELP = "\n".join(f"  {rule.name:<18} {rule.what}" for rule in RULES)


@command.command(
    "audit",
    help="Find commands that use later history, downloads, network or the grader's files; exit code 1 if any.\n\n"
    "PATH: traj.json, or a folder that contains such files.",
    short_help="find commands that use later history, downloads, network or the grader's files",
    epilog=f"\b\nrules:\n{RULE_HELP}",
)
@click.argument("path", type=PATH, nargs=-1, required=True)
@click.option("--ignore", multiple=True, type=click.Choice([rule.name for rule in RULES]), metavar="RULE")
@output_option
@runs
async def audit_trajectories(options: Options) -> int:
    """Print the findings. Exit codes: 0 none, 1 some, 2 none but some file cannot be read."""
    rules = [rule for rule in RULES if rule.name not in options.ignore]
    count = suspicious = unread = 0
    documents: list[dict[str, Any]] = []
    for trajectory in read_trajectories(options.path):
        if isinstance(trajectory, TrajectoryError):
            unread += 1
            print(f"swerl: {trajectory}", file=sys.stderr)
            continue
        found = findings(trajectory.commands, rules)
        count, suspicious = count + 1, suspicious + bool(found)
        documents.append(_document(trajectory, found))
        if not is_json(options):
            print(_as_text(trajectory, found), end="", flush=True)
    summary = f"{suspicious} of {count} trajectories have findings" + (f", {unread} cannot be read" if unread else "")
    print_result(options, documents, [summary])
    return 1 if suspicious else 2 if unread else 0


def _as_text(trajectory: AuditedTrajectory, found: list[AuditFinding]) -> str:
    if not found:
        return ""
    verdict = f" ({trajectory.status})" if trajectory.status else ""
    lines = [f"  step {each.step:<3} {each.rule:<18} {visible(each.excerpt)}\n" for each in found]
    return f"{trajectory.instance_id}{verdict}  {trajectory.path}\n{''.join(lines)}"


def _document(trajectory: AuditedTrajectory, found: list[AuditFinding]) -> dict[str, Any]:
    return {
        "path": str(trajectory.path),
        "instance_id": trajectory.instance_id,
        "status": trajectory.status,
        "commands": len(trajectory.commands),
        "findings": [asdict(each) for each in found],
    }
