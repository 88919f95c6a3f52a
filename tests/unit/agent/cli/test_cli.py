"""The `swerl` command line: what it prints and how it ends on bad input."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from swerl_agent.cli import main, parse
from swerl_agent.cli.options import agent_spec
from swerl_agent.cli.pod_options import sandbox_settings
from swerl_agent.episode import Episode, EpisodeRequest, GradedEpisode, PromptError, agent_protocol
from swerl_agent.grading import GradingError, Verdict
from swerl_agent.tasks import Task
from swerl_api import AgentSpec, GradingSpec, ObservationSpec

from .rows import ROW

ENGINE = ["--engine", "http://127.0.0.1:9", "--tokenizer", "/nowhere"]
CHAT = ["--engine", "http://127.0.0.1:9/v1", "--api", "chat-completions"]
RUN = ["episode", "run", "{tasks}", "--task", "kit__kit-1"]
MINI = ["--agent", "mini-swe-agent"]


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


def test_images_are_listed_once_each_for_an_image_set(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "images", str(tasks), str(tasks), "--registry-rewrite", "=mirror:5000/"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == sorted(set(lines)) and all(line.startswith("mirror:5000/") for line in lines)


def test_list_shows_ids_tests_and_rewritten_images(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "list", str(tasks), "--registry-rewrite", "=mirror:5000/"]) == 0
    assert capsys.readouterr().out.split() == ["kit__kit-1", "1+2", "mirror:5000/swe-rl/task-kit:1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tasks", "list", "/nowhere"], "/nowhere does not exist"),
        (["tasks", "list", "{tasks}", "--filter", "nothing"], "no task left"),
        (["tasks", "list", "{tasks}", "--slice", "x"], "slice 'x'"),
        (["tasks", "check", "{tasks}", "--output", "{tasks}.out", "--kubeconfig", "/nowhere"], "/nowhere"),
        (["episode", "run", "{tasks}", "--task", "other", *ENGINE], "has no task other"),
        (["episode", "run", "{tasks}", "--task", "kit__kit-1", *ENGINE], "no tokenizer at"),
        (["serve", *ENGINE], "no tokenizer at"),
        (["serve", *ENGINE, "--prompts", "{tasks}"], "need a mapping `agent`"),
        (["serve", *ENGINE, "--prompts", "/nowhere/p.yaml"], "/nowhere/p.yaml cannot be read"),
        (["eval", "run", "{tasks}", "--output", "{tasks}.out", "--prompts", "/bin/sh", *ENGINE], "/bin/sh cannot be"),
        (["eval", "run", "{tasks}", "--output", "{tasks}.out", *MINI, *ENGINE], "no tokenizer at"),
        (
            ["episode", "run", "{tasks}", "--task", "kit__kit-1", *MINI, "--protocol", "first-block", *ENGINE],
            "does not support",
        ),
        (
            ["episode", "run", "{tasks}", "--task", "kit__kit-1", *MINI, "--repeat-limit", "3", *ENGINE],
            "--repeat-limit needs --agent builtin",
        ),
        ([*RUN, *MINI, "--head-ratio", "0.5", *ENGINE], "--head-ratio needs --agent builtin"),
        (
            [*RUN, *MINI, "--observation-tail-chars", "0", *ENGINE],
            "--prompts configures mini-swe-agent's output",
        ),
        ([*RUN, "--observation-max-chars", "9000", *ENGINE], "not exceed --observation-max-chars: 5000 + 5000 > 9000"),
        ([*RUN, "--engine", "http://127.0.0.1:9"], "--api generate needs --tokenizer"),
        ([*RUN, *ENGINE, "--api-key-env", "KEY"], "--api-key-env needs --api chat-completions"),
        ([*RUN, *CHAT], "--api chat-completions needs --model"),
        ([*RUN, *CHAT, "--model", "m", "--tokenizer", "/nowhere"], "--tokenizer needs --api generate"),
        (
            [*RUN, *CHAT, "--model", "m", "--api-key-env", "NOT_SET"],
            "--api-key-env NOT_SET: the variable is not set",
        ),
        (
            [*RUN, *CHAT, "--model", "m", "--protocol", "mini-swe-agent-2-tools"],
            "with SGLang's /generate only; with chat compl",
        ),
        (["eval", "run", "{tasks}", "--output", "{tasks}.out", *CHAT], "--api chat-completions needs --model"),
        (
            ["eval", "run", "{tasks}", "--output", "{tasks}.out", "--top-p", "2", *ENGINE],
            "2 is not from 0 to 1",
        ),
    ],
)
def test_invalid_input_is_one_line(
    tasks: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main([argument.replace("{tasks}", str(tasks)) for argument in arguments]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 1
    assert message in errors[0]


def test_disk_error_is_one_clear_line(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "run", str(tasks), "--output", "/dev/full/runs", *ENGINE]) == 3
    (error,) = capsys.readouterr().err.splitlines()
    assert error.startswith("swerl: ") and "/dev/full" in error
    assert error.endswith("results so far are kept: run the same command again")


@pytest.mark.parametrize(
    ("ending", "code", "messages"),
    [
        ({"infrastructure_error": True, "error": "EngineError: HTTP 429"}, 3, ["swerl: EngineError: HTTP 429"]),
        (
            {"infrastructure_error": True, "error_code": "no_repository", "error": "NoRepository: the image x"},
            2,
            ["swerl: NoRepository: the image x"],
        ),
        ({"exit_status": "prompt_too_long", "error": "raise it"}, 1, ["swerl: raise it"]),
        ({"exit_status": "max_steps"}, 1, []),
    ],
)
def test_episode_without_result_gives_the_reason(
    tasks: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ending: dict[str, Any],
    code: int,
    messages: list[str],
) -> None:
    class Opened:
        namespace = "n"

        async def run(self, *args: Any) -> GradedEpisode:
            return GradedEpisode(Episode("kit__kit-1", "cli", 0, **ending))

    for name in ("chosen_agent", "open_client", "open_sample_runner"):
        monkeypatch.setattr(f"swerl_agent.cli.episode.{name}", lambda *args, **kwargs: nullcontext(Opened()))
    command = ["episode", "run", str(tasks), "--task", "kit__kit-1", "--output", str(tmp_path / "out"), *ENGINE]
    assert main(command) == code
    assert capsys.readouterr().err.splitlines() == messages


@pytest.mark.parametrize("error", [GradingError("no permission"), None])
def test_episode_always_leaves_its_artifacts(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    class Opened:
        namespace = "n"

        async def run(self, request: EpisodeRequest, agent: Any) -> GradedEpisode:
            episode = Episode("kit__kit-1", "cli", 0, patch="diff --git a/x b/x\n", exit_status="submitted")
            assert request.on_end
            request.on_end(episode)
            if error:
                raise error
            return GradedEpisode(episode, Verdict("unresolved"))

    for name in ("chosen_agent", "open_client", "open_sample_runner"):
        monkeypatch.setattr(f"swerl_agent.cli.episode.{name}", lambda *args, **kwargs: nullcontext(Opened()))
    command = ["episode", "run", str(tasks), "--task", "kit__kit-1", "--output", str(tmp_path), "--max-tokens", "99"]
    endpoint = ["--engine", "http://user:secret@host:1/v1?key=secret", "--api", "chat-completions", "--model", "m"]
    assert main([*command, *endpoint]) == (3 if error else 1)
    (path,) = tmp_path.glob("*/meta.json")
    meta = json.loads(path.read_text())
    assert {name: meta[name] for name in ("model", "api_base", "step_limit", "max_tokens")} == {
        "model": "m", "api_base": "http://host:1/v1", "step_limit": 20, "max_tokens": 99,
    }  # fmt: skip
    assert (meta["exit_status"], meta["reward"]) == ("submitted", None if error else 0)
    assert b"secret" not in path.read_bytes() + path.with_name("traj.json").read_bytes()


LIMITS = ["--step-timeout", "30", "--episode-timeout", "7200", "--format-error-limit", "5", "--repeat-limit", "3"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (20, 180, 1800, 0, 0, 3180)),
        (LIMITS, (20, 30, 7200, 5, 3, 8580)),
        (["--protocol", "mini-swe-agent-2", "--step-limit", "9"], (9, 180, 1800, 3, 0, 3180)),
    ],
)
def test_limits_are_options_and_the_sandbox_outlives_the_episode(
    arguments: list[str], expected: tuple[int, ...]
) -> None:
    options = parse(["episode", "run", "tasks", "--task", "t", *ENGINE, *arguments])
    spec, sandbox = agent_spec(options), sandbox_settings(options)
    protocol = agent_protocol(spec)
    assert expected == (
        spec.step_limit,
        spec.command_timeout_seconds,
        spec.episode_timeout_seconds,
        protocol.format_error_limit,
        protocol.repeat_limit,
        sandbox.lifetime_seconds,
    )


def test_context_policy_is_an_option_of_the_builtin_agent() -> None:
    command = ["episode", "run", "tasks", "--task", "t", *ENGINE]
    assert agent_spec(parse(command)).context_policy == "omit"
    options = parse([*command, "--context-policy", "stop"])
    assert agent_spec(options).context_policy == "stop"
    with pytest.raises(PromptError, match="--context-policy needs --agent builtin"):
        agent_spec(parse([*command, *MINI, "--context-policy", "stop"]))


def test_truncation_limits_are_options() -> None:
    command = ["episode", "run", "tasks", "--task", "t", *ENGINE]
    spec = agent_spec(parse(command))
    assert (spec.head_ratio, spec.observation) == (AgentSpec().head_ratio, AgentSpec().observation)
    observation_options = [
        "--observation-max-chars",
        "100",
        "--observation-head-chars",
        "0",
        "--observation-tail-chars",
        "90",
    ]
    spec = agent_spec(parse([*command, "--head-ratio", "0.5", *observation_options]))
    assert (spec.head_ratio, spec.observation) == (0.5, ObservationSpec(max_chars=100, head_chars=0, tail_chars=90))


@pytest.mark.parametrize(
    "options", [["--head-ratio", "1.1"], ["--observation-tail-chars", "-1"], ["--observation-max-chars", "0"]]
)
def test_ratios_and_lengths_out_of_range_are_usage_errors(options: list[str]) -> None:
    assert main(["episode", "run", "tasks", "--task", "t", *ENGINE, *options]) == 2


@pytest.mark.parametrize(
    ("options", "folder", "fresh"),
    [([], "out/verdicts", False), (["--cache", "kept"], "kept", False), (["--redo"], "out/verdicts", True)],
)
def test_graded_predictions_keep_their_verdicts(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], folder: str, fresh: bool
) -> None:
    recorded: list[Any] = []

    class RecordingGrader(nullcontext[None]):
        def __init__(self, client: Any, namespace: str, settings: GradingSpec, **kwargs: Any) -> None:
            super().__init__()
            recorded.extend([settings.cache, kwargs["cache_directory"]])

        async def grade(self, task: Task, patch: str, *, fresh: bool) -> Verdict:
            recorded.append(fresh)
            return Verdict("resolved")

    monkeypatch.chdir(tmp_path)
    opened = nullcontext(SimpleNamespace(namespace="n"))
    for name in ("open_client", "owning_lease"):
        monkeypatch.setattr(f"swerl_agent.cli.grade.{name}", lambda *args, **kwargs: opened)
    monkeypatch.setattr("swerl_agent.cli.grade.Grader", RecordingGrader)
    (tmp_path / "preds.json").write_text('[{"instance_id": "kit__kit-1", "model_patch": "diff"}]')
    assert main(["grade", "preds.json", "--tasks", str(tasks), "--output", "out", *options]) == 0
    assert recorded == [True, Path(folder), fresh]


def test_evaluation_stores_verdicts_with_its_results(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded: list[Any] = []

    def record_settings(*args: Any, **kwargs: Any) -> None:
        recorded.extend([args[2].cache, kwargs["cache_directory"]])
        raise PromptError("seen")

    for name in ("chosen_agent", "open_client"):
        opened = SimpleNamespace(namespace="n")
        monkeypatch.setattr(f"swerl_agent.cli.eval.{name}", lambda *args, opened=opened: nullcontext(opened))
    monkeypatch.setattr("swerl_agent.cli.eval.open_sample_runner", record_settings)
    assert main(["eval", "run", str(tasks), "--output", str(tmp_path / "out"), *ENGINE]) == 2
    assert recorded == [True, tmp_path / "out" / "verdicts"]


def test_malformed_rewrite_is_a_usage_error(tasks: Path) -> None:
    assert main(["tasks", "list", str(tasks), "--registry-rewrite", "nothing"]) == 2
