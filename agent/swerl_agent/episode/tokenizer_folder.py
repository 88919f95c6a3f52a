"""A tokenizer's folder as Hugging Face lays it out.

Guarantee: whatever is wrong with its files is a TokenizerError that names them.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class TokenizerError(ValueError):
    """A tokenizer or chat template that cannot carry a conversation; the message says what is wrong with it."""


def read_tokenizer(path: Path, chat_template: str | None = None) -> Any:
    """The folder's tokenizer with a chat template, `chat_template` instead of its own. Raises TokenizerError."""
    if not path.is_dir():
        raise TokenizerError(f"no tokenizer at {path}: no such folder")
    # Without torch, transformers advises to install it; tokenizers do not need it.
    os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
    from transformers import AutoTokenizer  # seconds of import that light commands need not pay

    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(str(path), use_fast=True, trust_remote_code=False)
    except Exception as error:  # files that are no tokenizer's raise anything, bare Exceptions among them
        raise TokenizerError(f"no tokenizer at {path}: {error}") from error
    if chat_template:
        tokenizer.chat_template = chat_template
    if not tokenizer.chat_template:
        raise TokenizerError(f"the tokenizer at {path} has no chat template; give one with agent.chatTemplate")
    return tokenizer


def vocabulary_size(path: Path, known: int) -> int:
    """Rows of the model's embedding when its config lies beside the tokenizer, else `known`. Raises TokenizerError."""
    config = path / "config.json"
    if not config.is_file():
        return known
    try:
        read = json.loads(config.read_text(encoding="utf-8"))
        return int(read.get("vocab_size") or read.get("text_config", {}).get("vocab_size") or known)
    except (AttributeError, OSError, TypeError, ValueError) as error:
        raise TokenizerError(f"{config} describes no model: {error}") from error
