"""Evaluations with a chat-completions endpoint: what is refused before the first API request, what is written."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.cli import main
from swerl_agent.cli.eval_job import _api_key
from swerl_agent.episode import EndpointError
from swerl_agent.evaluation import SampleRecords
from swerl_agent.evaluation.shard import Shard, ShardFolders, run_shard
from swerl_api import EvaluationFile

from tests.chat_server import MODEL, ChatServer, scripted, serving
from tests.kubeconfig import write_kubeconfig
from tests.unit.agent.episode.conftest import PLAIN, make_tokenizer
from tests.unit.agent.tasks.rows import swebench

from .test_shard import SOLVED, FakeConfigMaps, evaluation_file, fill

KEY = "sk-very-secret-0123456789"


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "rows.jsonl").write_text(json.dumps(swebench("a__a-1")))
    return folder


def eval_command(tasks: Path, url: str, *options: str) -> list[str]:
    config = write_kubeconfig(tasks.parent / "kubeconfig", "http://127.0.0.1:1")
    fixed = ["--output", str(tasks.parent / "out"), "--kubeconfig", config, "--namespace", "n"]
    return ["eval", "run", str(tasks / "rows.jsonl"), *fixed, "--engine", url, "--api", "chat-completions", *options]


async def test_model_unknown_to_the_server_starts_no_sample(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with serving(ChatServer(scripted("OK"))) as server:
        assert await asyncio.to_thread(main, eval_command(tasks, server.url, "--model", "policy-8b")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"swerl: {server.url} does not serve model 'policy-8b' but {MODEL}; choose one with --model")
    assert not (tasks.parent / "out").exists()


async def test_refused_key_starts_no_sample(
    tasks: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    async with serving(ChatServer(scripted("OK"), key="another")) as server:
        command = eval_command(tasks, server.url, "--model", MODEL, "--api-key-env", "MY_KEY")
        assert await asyncio.to_thread(main, command) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "refuses the API key" in line and KEY not in line


async def test_folder_holds_results_of_one_model_and_one_api(tasks: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tasks.parent / "out"
    sample_options: dict[str, Any] = {"agent": "builtin", "api": "chat-completions", "model": "policy-6b"}
    fill(output, SOLVED)
    (output / "settings.json").write_text(json.dumps({"model": "m", "sample_options": sample_options}))
    command = eval_command(tasks, "http://127.0.0.1:9/v1", "--model", MODEL, "--model-name", "m")
    assert await asyncio.to_thread(main, command) == 2
    assert "'model': 'policy-6b'" in capsys.readouterr().err


def chat_file(url: str, **endpoint: Any) -> EvaluationFile:
    chat = {"url": url, "api": "chat-completions", "model": MODEL, **endpoint}
    file = evaluation_file(model={"endpoint": chat}, shards=1)
    return file.model_copy(update={"engine": url, "tokenizer": None})


async def test_shard_sends_the_key_of_its_secret(tasks: Path, tmp_path: Path) -> None:
    folders = ShardFolders(tasks=tasks, output=tmp_path / "output")
    async with serving(ChatServer(scripted("OK"), key=KEY)) as server:
        file = chat_file(server.url, apiKeySecret={"name": "api", "key": "token"})
        shard = Shard(file, 0, folders, api_key=KEY)
        fill(shard.folder, SOLVED)
        assert await run_shard(FakeConfigMaps(), shard)  # type: ignore[arg-type]
    assert KEY not in repr(shard) and KEY not in file.model_dump_json()
    kept = json.loads((shard.folder / "settings.json").read_text())["sample_options"]
    assert (kept["api"], kept["model"]) == ("chat-completions", MODEL)
    assert len(server.requests) == 1


async def test_refused_shard_creates_no_folder(tasks: Path, tmp_path: Path) -> None:
    folders = ShardFolders(tasks=tasks, output=tmp_path / "output")
    async with serving(ChatServer(scripted("OK"), models=["policy-6b"])) as server:
        shard = Shard(chat_file(server.url), 0, folders)
        with pytest.raises(EndpointError, match="does not serve model 'policy-7b' but policy-6b"):
            await run_shard(FakeConfigMaps(), shard)  # type: ignore[arg-type]
    assert not shard.folder.exists()
    assert SampleRecords(tmp_path).all == []


def test_key_is_read_where_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWERL_API_KEY", f"{KEY}\n")
    named = chat_file("http://api/v1", apiKeySecret={"name": "api", "key": "token"})
    assert (_api_key(named), _api_key(chat_file("http://api/v1")), _api_key(evaluation_file())) == (KEY, None, None)
    monkeypatch.setenv("SWERL_API_KEY", "")
    with pytest.raises(Exception, match="which holds key 'token' of Secret 'api', is empty"):
        _api_key(named)


async def test_engine_of_another_model_starts_no_sample(
    tasks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = make_tokenizer(tmp_path / "tokenizer", PLAIN)
    async with serving(ChatServer(scripted("OK"), models=["/models/policy-8b"])) as server:
        url = server.url.removesuffix("/v1")
        command = eval_command(tasks, url, "--model", "org/policy-7b", "--tokenizer", str(tokenizer))
        assert await asyncio.to_thread(main, [*command, "--api", "generate"]) == 2
        line = capsys.readouterr().err.splitlines()[-1]  # after what transformers says when it is imported
        assert line.startswith(f"swerl: {url} serves /models/policy-8b, not org/policy-7b; ask another server")
        assert not (tasks.parent / "out").exists()
        file = evaluation_file(shards=1).model_copy(update={"engine": url, "tokenizer": str(tokenizer)})
        endpoint = file.spec.model.endpoint
        assert endpoint is not None
        endpoint.model = "org/policy-7b"
        shard = Shard(file, 0, ShardFolders(tasks=tasks, output=tmp_path / "output"))
        with pytest.raises(EndpointError, match=r"serves /models/policy-8b, not org/policy-7b"):
            await run_shard(FakeConfigMaps(), shard)  # type: ignore[arg-type]
        assert not shard.folder.exists()
        endpoint.model = "org/policy-8b"
        fill(shard.folder, SOLVED)
        assert await run_shard(FakeConfigMaps(), shard)  # type: ignore[arg-type]
