"""`swerl trajectories audit`: finds commands of episodes that may be attempts to cheat."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from swerl_agent.audit import RULES, Finding, Trajectory, TrajectoryError, findings, read_trajectories


def add_parsers(parser: argparse.ArgumentParser) -> None:
    """`audit`."""
    verbs = parser.add_subparsers(dest="verb", required=True)
    rules = "\n".join(f"  {rule.name:<18} {rule.what}" for rule in RULES)
    audit = verbs.add_parser(
        "audit",
        help="find commands that use later history, downloads, network or the grader's files; exit code 1 if any",
        epilog=f"rules:\n{rules}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    audit.add_argument("path", type=Path, nargs="+", help="traj.json, or a folder that contains such files")
    audit.add_argument("--json", action="store_true", help="one JSON object per trajectory instead of text")
    audit.add_argument("--ignore", action="append", default=[], choices=[rule.name for rule in RULES], metavar="RULE")
    audit.set_defaults(run=audit_trajectories)


async def audit_trajectories(options: argparse.Namespace) -> int:
    """Print the findings. Exit codes: 0 none, 1 some, 2 none but some file cannot be read."""
    rules = [rule for rule in RULES if rule.name not in options.ignore]
    count = suspicious = unread = 0
    for trajectory in read_trajectories(options.path):
        if isinstance(trajectory, TrajectoryError):
            unread += 1
            print(f"swerl: {trajectory}", file=sys.stderr)
            continue
        found = findings(trajectory.commands, rules)
        count, suspicious = count + 1, suspicious + bool(found)
        print(_as_json(trajectory, found) if options.json else _as_text(trajectory, found), end="", flush=True)
    if not options.json:
        print(f"{suspicious} of {count} trajectories have findings" + (f", {unread} cannot be read" if unread else ""))
    return 1 if suspicious else 2 if unread else 0


def _as_text(trajectory: Trajectory, found: list[Finding]) -> str:
    if not found:
        return ""
    verdict = f" ({trajectory.status})" if trajectory.status else ""
    lines = [f"  step {each.step:<3} {each.rule:<18} {each.excerpt}\n" for each in found]
    return f"{trajectory.instance_id}{verdict}  {trajectory.path}\n{''.join(lines)}"


def _as_json(trajectory: Trajectory, found: list[Finding]) -> str:
    content = {
        "path": str(trajectory.path),
        "instance_id": trajectory.instance_id,
        "status": trajectory.status,
        "commands": len(trajectory.commands),
        "findings": [asdict(each) for each in found],
    }
    return json.dumps(content) + "\n"
