"""A tiny random model that every part of the trainer can load, and small jobs that train it."""

from __future__ import annotations

import faulthandler
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key  # standard error, beside pytest's capture
from swerl_trainer.job import Job, Paths

VOCABULARY = 512
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

GRACE = 60.0  # seconds after a test's own limit


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """End the worker process of a test that hangs in a library which holds Python's lock, where no limit ends it."""
    marker = item.get_closest_marker("timeout")
    limit = float(marker.args[0] if marker else item.config.getini("timeout"))
    stderr = item.config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(limit + GRACE, exit=True, file=stderr)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """See pytest_runtest_setup."""
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def write_tokenizer(folder: Path) -> None:
    """A byte-level tokenizer of 259 tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator([], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHAT_TEMPLATE
    ).save_pretrained(folder)


def write_model(folder: Path, seed: int) -> Path:
    """A random two-layer Qwen3 with a byte-level tokenizer, in Hugging Face format."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    write_tokenizer(folder)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=2,
        bos_token_id=None,
        pad_token_id=0,
    )
    Qwen3ForCausalLM(config).float().save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """Folder of the random model of a seed."""
    return lambda seed: write_model(tmp_path_factory.mktemp("models") / f"seed-{seed}", seed)


def job_document(name: str = "demo", uid: str = "u", **changes: Any) -> dict[str, Any]:
    """A small CPU job, as the operator writes it; `changes` are merged into the spec's sections, None takes one out."""
    spec: dict[str, Any] = {
        "model": {"source": {"configMap": {"name": "m"}}, "dtype": "float32"},
        "tasks": {"source": {"configMap": {"name": "t"}}},
        "algorithm": {"steps": 2, "promptsPerStep": 2, "groupSize": 4, "lr": 1e-3, "dynamicFilter": False},
        "agent": {"stepLimit": 2, "contextTokens": 512, "maxTokensPerTurn": 24},
        "trainer": {"image": "trainer"},
        "checkpoint": {"volume": {"hostPath": {"path": "/runs"}}, "every": 1},
        "evaluation": {"source": {"configMap": {"name": "e"}}, "samples": 2},
    }
    for section, fields in changes.items():
        if fields is None:
            spec.pop(section, None)
        else:
            spec[section] = {**spec.get(section, {}), **fields}
    return {"name": name, "namespace": "n", "uid": uid, "attempt": 1, "lease": f"{name}-1", "spec": spec}


@pytest.fixture
def make_job(tmp_path: Path) -> Callable[..., Job]:
    """A job read from its file, with the model's folder; keyword arguments change sections of its spec, `name` and
    `uid` whose it is, `attempt` its attempt."""

    def make(folder: Path | None = None, attempt: int = 1, **changes: Any) -> Job:
        document = job_document(**changes)
        document |= {"attempt": attempt, "lease": f"{document['name']}-{attempt}"}
        path = tmp_path / "job.json"
        path.write_text(json.dumps(document))
        return Job.read(
            path, Paths(folder or tmp_path / "model", tmp_path / "tasks", tmp_path / "held-out", tmp_path / "output")
        )

    return make
