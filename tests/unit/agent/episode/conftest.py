"""Real Hugging Face tokenizers with chat templates of several kinds, and episodes in a real repository."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from swerl_agent.episode import (
    PROTOCOLS,
    AgentProtocol,
    BuiltinAgent,
    Episode,
    EpisodeRequest,
    HFTokenizer,
    Prompts,
)
from swerl_agent.sandbox import CommandResult, SandboxError
from swerl_agent.tasks import GroundTruth, Task

from tests.agent_spec import agent_spec
from tests.scripted_engine import Script

GOLD = "gold-fix-text"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git add -A && git diff --cached"
PATCH = b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"

PLAIN = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# As thinking models have it: the last answer is rendered with a think block, earlier ones without.
THINKING = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ message.content.split('</think>')[-1] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\n</think>\n\n{% endif %}"
)
# As models with tools have it: tools in the system message, results as blocks in one user message.
TOOLS = (
    "{% for message in messages %}"
    "{% if message.role == 'tool' %}"
    "{% if messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
    "\n<tool_response>\n{{ message.content }}\n</tool_response>"
    "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
    "{% else %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{% if loop.first and tools %}\n\n# Tools\n{% for tool in tools %}{{ tool | tojson }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = [
    "def wrap(text): return text\n",
    "ls -la && cat file.py\n",
    "<returncode>0</returncode>\n<output>\n",
    "é ü 中",
]


# Tokens a model writes itself, and those around a message of the GLM family.
WRITTEN = ["<think>", "</think>"]
GLM_SPECIAL = ["[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]


def make_tokenizer(folder: Path, template: str | None) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *GLM_SPECIAL]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=alphabet)
    )
    whole = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    whole.add_tokens(WRITTEN)
    whole.chat_template = template
    whole.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    return HFTokenizer(make_tokenizer(tmp_path_factory.mktemp("tokenizer"), PLAIN))


@pytest.fixture(scope="session")
def tool_tokenizer(tmp_path_factory: pytest.TempPathFactory) -> HFTokenizer:
    folder = make_tokenizer(tmp_path_factory.mktemp("tools"), TOOLS)
    return HFTokenizer(folder, tools=PROTOCOLS["mini-swe-agent-2-tools"].tools)


@dataclass
class Shell:
    """Runs commands in a local folder the way a sandbox session does."""

    folder: Path
    failure: SandboxError | None = None  # of every command after those of `works`
    works: tuple[str, ...] = ("check",)  # steps of the baseline that succeed
    image: str = ""

    async def run(
        self,
        command: str,
        *,
        timeout: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        max_output: int = 1 << 20,
    ) -> CommandResult:
        if self.failure and not any(f" sh {step} " in command for step in self.works):
            raise self.failure
        variables = os.environ | {"TMPDIR": str(self.folder.parent)}
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", command, cwd=self.folder, env=variables, stdout=-1, stderr=-1, start_new_session=True
        )
        try:
            stdout, stderr = await asyncio.wait_for(process.communicate(), timeout)
        except (TimeoutError, asyncio.CancelledError) as ended:
            os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
            if isinstance(ended, asyncio.CancelledError):
                raise
            return CommandResult("c", 137, b"partial\n", b"", 8, 0, True, timeout)
        return CommandResult(
            "c", process.returncode or 0, stdout[:max_output], stderr, len(stdout), len(stderr), False, 0.1
        )

    @asynccontextmanager
    async def without_profile(self) -> AsyncIterator[Shell]:
        yield self


class CannedSession:
    """A session that runs nothing: every command says which it was, a submission has a patch."""

    image = "repository/task@sha256:0123"

    async def run(self, command: str, **how: Any) -> CommandResult:
        await asyncio.sleep(0)
        stdout = f"ran {command}\n".encode()
        patch = PATCH if "git diff" in command else b""
        if patch or "COMPLETE" in command:
            stdout = (b"COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n" if "COMPLETE" in command else b"") + patch
        return CommandResult("c", 0, stdout, b"", len(stdout), 0, False, 0.0)

    @asynccontextmanager
    async def without_profile(self) -> AsyncIterator[CannedSession]:
        yield self


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "testbed"
    folder.mkdir()
    (folder / "kit.py").write_text("answer = 41\n")
    (folder / "old.py").write_text("unused = 1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)
    return done.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def image(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that its image changed after the commit: an edited file, an untracked one, ignored ones."""
    home = repository.parent / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(home / "system"))
    (repository / ".gitignore").write_text("out/\n*.log\n")
    (repository / "kept.log").write_text("tracked, though ignored\n")
    (repository / "tox.ini").write_text("[pytest]\naddopts =\n")
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-qm", "base")
    (repository / "tox.ini").write_text("[pytest]\naddopts = -rA\n")
    (repository / "build").mkdir()
    (repository / "build/lib.py").write_bytes(b"a\r\nb\r\n")
    (repository / "out").mkdir()
    (repository / "out/built.o").write_bytes(b"\0\1")
    return repository


Run = Callable[..., tuple[Episode, Script]]


@pytest.fixture
def run(tokenizer: HFTokenizer, repository: Path) -> Run:
    plain = tokenizer

    def go(
        *answers: str | Exception,
        failure: SandboxError | None = None,
        works: tuple[str, ...] = ("check", "take"),
        protocol: AgentProtocol = PROTOCOLS["mini-swe-agent-1"],
        tokenizer: HFTokenizer = plain,
        engine: type[Script] = Script,
        live: Path | None = None,
        **limits: Any,
    ) -> tuple[Episode, Script]:
        ground_truth = GroundTruth("pytest", GOLD, "", ("t::a",), ())
        task = Task("kit__kit-1", "kit/kit", "0" * 40, "1", "The answer is 42.", "image", ground_truth)
        script = engine(tokenizer, answers)
        prompts = Prompts.default(protocol)
        agent = BuiltinAgent(script, tokenizer, prompts, agent_spec(**limits, protocol=protocol.name))
        request = EpisodeRequest(task, group="g3", index=2, temperature=1.0, workdir=str(repository), live=live)
        return asyncio.run(agent.run_episode(request, Shell(repository, failure, works))), script

    return go
