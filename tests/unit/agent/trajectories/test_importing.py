"""Trajectories of mini-swe-agent and SWE-agent as stored episodes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.audit import TrajectoryError
from swerl_agent.cli import main
from swerl_agent.console import EpisodeIndex
from swerl_agent.trajectories.export import FORMATS, export_trajectories
from swerl_agent.trajectories.importing import ImportCount, harness_verdicts, import_trajectories
from swerl_agent.trajectories.stored import StoredEpisode, episode_sets

PATCH = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n"
OPENING = [{"role": "system", "content": "You are helpful."}, {"role": "user", "content": "Fix it."}]
MINI_1 = {
    "info": {
        "exit_status": "Submitted",
        "submission": PATCH,
        "model_stats": {"instance_cost": 0.25, "api_calls": 3},
        "mini_version": "1.9.1",
        "config": {"model": {"model_name": "openai/gpt-4"}},
    },
    "messages": [
        *OPENING,
        {"role": "assistant", "content": "THOUGHT: look\n\n```bash\nls -la\n```"},
        {"role": "user", "content": "<returncode>0</returncode>\n<output>\nx.py\n</output>"},
        {"role": "assistant", "content": "```bash\nls\n```\n```bash\ncat x.py\n```"},
        {"role": "user", "content": "Please always provide EXACTLY ONE action."},
        {"role": "assistant", "content": "```bash\nfalse\n```"},
        {"role": "user", "content": "<returncode>1</returncode>\n<output>\n</output>"},
    ],
    "trajectory_format": "mini-swe-agent-1",
    "instance_id": "kit__kit-1",
}
MINI_2 = {
    "info": {**MINI_1["info"], "mini_version": "2.4.6"},  # type: ignore[dict-item]
    "messages": [
        *OPENING,
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "function": {"name": "bash", "arguments": '{"command": "ls -la"}'}}],
            "extra": {
                "actions": [{"command": "ls -la", "tool_call_id": "c1"}],
                "timestamp": 1_000.0,
                "response": {"usage": {"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": None}},
            },
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "<returncode>0</returncode>\n<output>\nx.py\n</output>",
            "extra": {"raw_output": "x.py\n", "returncode": 0, "timestamp": 1_002.5},
        },
        {"role": "exit", "content": PATCH, "extra": {"exit_status": "Submitted", "submission": PATCH}},
    ],
    "trajectory_format": "mini-swe-agent-1.1",
    "instance_id": "kit__kit-1",
}
RESPONSES = {
    **MINI_2,
    "messages": [
        *OPENING,
        {
            "object": "response",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I look."}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
                {"type": "function_call", "name": "bash", "call_id": "c", "arguments": '{"command": "ls -la"}'},
            ],
            "usage": {"input_tokens": 50, "output_tokens": 7},
            "extra": {"actions": [{"command": "ls -la", "tool_call_id": "c"}]},
        },
        {"type": "function_call_output", "call_id": "c", "output": "x.py\n", "extra": {"returncode": 0}},
    ],
}
SWE_AGENT = {
    "environment": "main",
    "trajectory": [
        {
            "action": "ls -la",
            "observation": "x.py\n",
            "response": "I look.",
            "thought": "I look.",
            "execution_time": 2.5,
        },
        {"action": "submit", "observation": "", "response": "", "thought": "Done."},
    ],
    "history": [
        {"role": "system", "content": "You are helpful.", "message_type": "system_prompt"},
        {"role": "user", "content": "A demonstration", "is_demo": True, "message_type": "demonstration"},
        {"role": "user", "content": [{"type": "text", "text": "Fix it."}], "message_type": "observation"},
        {"role": "assistant", "content": "I look.", "message_type": "action"},
    ],
    "info": {
        "exit_status": "submitted",
        "submission": PATCH,
        "model_stats": {"instance_cost": 0.25, "tokens_sent": 50, "tokens_received": 7, "api_calls": 2},
        "swe_agent_version": "1.1.0",
    },
}


def imported(*paths: Path, output: Path, **options: Any) -> tuple[ImportCount, list[TrajectoryError]]:
    """The import of `paths`."""
    errors: list[TrajectoryError] = []
    return import_trajectories(paths, output, on_error=errors.append, **options), errors


def stored(output: Path) -> StoredEpisode:
    """The only episode of an import."""
    (found,) = episode_sets(output)[0].episodes()
    assert isinstance(found, StoredEpisode)
    return found


@pytest.mark.parametrize(
    ("name", "content", "agent"),
    [
        ("kit__kit-1.traj.json", MINI_1, "mini-swe-agent"),
        ("kit__kit-1.traj.json", MINI_2, "mini-swe-agent"),
        ("kit__kit-1.traj.json", RESPONSES, "mini-swe-agent"),
        ("kit__kit-1.traj", SWE_AGENT, "SWE-agent"),
    ],
)
def test_trajectories_of_others_are_episodes(tmp_path: Path, name: str, content: object, agent: str) -> None:
    (tmp_path / "runs/kit__kit-1").mkdir(parents=True)
    (tmp_path / "runs/kit__kit-1" / name).write_text(json.dumps(content))
    count, errors = imported(tmp_path / "runs", output=tmp_path / "out")
    assert (count.episodes, errors) == (1, [])
    one = stored(tmp_path / "out")
    assert (one.task, one.patch, one.info["agent_name"]) == ("kit__kit-1", PATCH, agent)
    assert [said for _, _, said in one.trajectory.opening] == ["You are helpful.", "Fix it."]
    first = one.trajectory.turns[0]
    assert first.commands[0].action == "ls -la" and "x.py" in first.commands[0].output
    assert "x.py" in first.results()[0][2]
    assert one.info["usage"]["cost_usd"] == 0.25 and one.info["exit_status"].lower() == "submitted"
    assert one.resolved is None


def test_return_codes_and_times_are_kept(tmp_path: Path) -> None:
    (tmp_path / "a.traj.json").write_text(json.dumps(MINI_1))
    imported(tmp_path / "a.traj.json", output=tmp_path / "one")
    turns = stored(tmp_path / "one").trajectory.turns
    assert [[command.exit_code for command in turn.commands] for turn in turns] == [[0], [], [1]]
    (tmp_path / "a.traj.json").write_text(json.dumps(MINI_2))
    imported(tmp_path / "a.traj.json", output=tmp_path / "two")
    one = stored(tmp_path / "two")
    assert one.trajectory.turns[0].commands[0].seconds == 2.5 and one.info["usage"]["prompt_tokens"] == 50
    (tmp_path / "b.traj").write_text(json.dumps(SWE_AGENT))
    imported(tmp_path / "b.traj", output=tmp_path / "three")
    assert stored(tmp_path / "three").trajectory.turns[0].commands[0].seconds == 2.5


def test_imported_episodes_are_in_the_console_and_in_exports(tmp_path: Path) -> None:
    (tmp_path / "a.traj.json").write_text(json.dumps(MINI_2))
    (tmp_path / "b.traj").write_text(json.dumps(SWE_AGENT))
    imported(tmp_path, output=tmp_path / "out")
    assert EpisodeIndex(tmp_path / "out", tmp_path / "index.sqlite").scan() == 2
    for format in FORMATS:
        assert export_trajectories(tmp_path / "out", tmp_path / format, format, on_error=pytest.fail).episodes == 2


def test_repeated_import_adds_what_is_new(tmp_path: Path) -> None:
    (tmp_path / "a.traj.json").write_text(json.dumps(MINI_2))
    imported(tmp_path / "a.traj.json", output=tmp_path / "out")
    (tmp_path / "b.traj").write_text(json.dumps(SWE_AGENT))
    count, _ = imported(tmp_path / "a.traj.json", tmp_path / "b.traj", output=tmp_path / "out")
    assert (count.episodes, count.known) == (1, 1)


def test_files_that_sort_before_others_do_not_repeat_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(run: str) -> Path:
        file = tmp_path / f"runs/{run}/kit__kit-1.traj"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(SWE_AGENT))
        return file

    later = write("c"), write("d")
    imported(tmp_path / "runs", output=tmp_path / "out")
    earlier = write("a")
    monkeypatch.chdir(tmp_path)
    count, _ = imported(Path("runs"), output=Path("out"))
    assert (count.episodes, count.known) == (1, 2)
    found = [json.loads(path.read_bytes()) for path in (tmp_path / "out").glob("*/meta.json")]
    assert {each["imported_from"]: each["index"] for each in found} == {
        str(file): index for index, file in enumerate([*later, earlier])
    }


def test_changed_file_is_imported_again_under_its_number(tmp_path: Path) -> None:
    for name in ("a.traj", "b.traj"):
        (tmp_path / name).write_text(json.dumps({**SWE_AGENT, "instance_id": "kit__kit-1"}))
    imported(tmp_path, output=tmp_path / "out")
    os.utime(tmp_path / "b.traj", ns=(2 * 10**18,) * 2)
    count, _ = imported(tmp_path, output=tmp_path / "out")
    assert (count.episodes, count.known) == (1, 1)
    found = [json.loads(path.read_bytes()) for path in (tmp_path / "out").glob("*/meta.json")]
    assert sorted((Path(each["imported_from"]).name, each["index"]) for each in found) == [
        ("a.traj", 0),
        ("b.traj", 1),
        ("b.traj", 1),
    ]


def test_report_of_the_harness_gives_verdicts(tmp_path: Path) -> None:
    for name in ("solved", "failed", "unknown"):
        (tmp_path / f"{name}.traj").write_text(json.dumps(SWE_AGENT))
    (tmp_path / "report.json").write_text(json.dumps({"resolved_ids": ["solved"], "error_ids": ["failed"]}))
    verdicts = harness_verdicts(tmp_path / "report.json")
    imported(tmp_path, output=tmp_path / "out", verdicts=verdicts)
    found = {
        one.task: one.resolved for one in episode_sets(tmp_path / "out")[0].episodes() if isinstance(one, StoredEpisode)
    }
    assert found == {"solved": True, "failed": False, "unknown": None}
    (tmp_path / "report.json").write_text("{}")
    with pytest.raises(TrajectoryError, match="not a report of the SWE-bench harness"):
        harness_verdicts(tmp_path / "report.json")


ODD = [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"info": {}}',
    b'{"trajectory_format": "swerl-trajectory-1", "messages": []}',
    json.dumps({**MINI_2, "instance_id": "x" * 300}).encode(),
]


@pytest.mark.parametrize("content", ODD, ids=range(len(ODD)))
def test_odd_file_is_named_and_ends_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.traj.json").write_bytes(content)
    (tmp_path / "b.traj.json").write_text(json.dumps(MINI_2))
    count, errors = imported(tmp_path, tmp_path / "none", output=tmp_path / "out")
    assert (count.episodes, count.failed) == (1, 2)
    assert "a.traj.json" in str(errors[0]) and "none" in str(errors[1])


@pytest.mark.parametrize(
    "value", [None, 7, "\ud800\udc80\x00", [1], {"a": 1}, [[None]], [{"role": "assistant"}], 1e999]
)
@pytest.mark.parametrize("content", [MINI_1, MINI_2, RESPONSES, SWE_AGENT], ids=range(4))
def test_fields_of_any_type_are_imported(tmp_path: Path, content: dict[str, Any], value: object) -> None:
    def odd(name: str, each: Any) -> Any:
        return [dict.fromkeys(item, value) for item in each] if isinstance(each, list) else dict.fromkeys(each, value)

    for name in ("info", "messages", "trajectory", "history"):
        if name in content:
            changed = {**content, name: odd(name, content[name]), "instance_id": "kit__kit-1"}
            (tmp_path / f"{name}.traj").write_text(json.dumps(changed))
    count, errors = imported(tmp_path, output=tmp_path / "out")
    assert errors == [] and count.episodes == len(list(tmp_path.glob("*.traj")))
    for format in FORMATS:
        assert export_trajectories(tmp_path / "out", tmp_path / format, format, on_error=pytest.fail).failed == 0


def test_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.traj.json").write_text(json.dumps(MINI_2))
    (tmp_path / "b.traj").write_text("{")
    command = ["trajectories", "import", str(tmp_path), "--output", str(tmp_path / "out")]
    assert main(command) == 2
    printed = capsys.readouterr()
    assert printed.out == "1 trajectories imported, 1 left out\n" and "b.traj cannot be read" in printed.err
    (tmp_path / "b.traj").unlink()
    assert main(command) == 0
    assert capsys.readouterr().out == "0 trajectories imported, 1 were there before\n"
