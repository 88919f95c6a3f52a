"""The tiny model's folder and what it was trained on: same tokens in training and production, no bundled task seen."""

from __future__ import annotations

import ast
import json
import random
import struct
from itertools import pairwise

import pytest
from swerl_agent.episode.prompts import Output, Prompts
from swerl_agent.episode.tokens import HFTokenizer
from swerl_agent.tasks import load_tasks
from swerl_api import ObservationSpec
from tokenizers import Tokenizer

from tasks.catalogue import FOLDER, SPLITS, function_source, load_catalogue
from tiny_model.defects import KINDS, random_defect
from tiny_model.episodes import (
    Noise,
    demo_prompts,
    demonstration,
    edit_command,
    encode,
    observation,
    prompt,
    wrong_fragment,
)
from tiny_model.vocabulary import build_tokenizer

MODEL = FOLDER.parent / "tiny_model" / "model"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(MODEL / "tokenizer.json"))


def ids(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


def test_folder_is_a_small_qwen3() -> None:
    config = json.loads((MODEL / "config.json").read_text())
    assert config["architectures"] == ["Qwen3ForCausalLM"]
    assert sum(file.stat().st_size for file in MODEL.iterdir()) <= 10_000_000
    weights = (MODEL / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", weights[:8])
    header = json.loads(weights[8 : 8 + length])
    assert header["model.embed_tokens.weight"]["shape"] == [config["vocab_size"], config["hidden_size"]]
    assert "lm_head.weight" not in header


def test_tokenizer_is_the_one_its_script_makes(tokenizer: Tokenizer) -> None:
    assert json.loads(build_tokenizer().to_str()) == json.loads(tokenizer.to_str())


def test_production_makes_the_ids_of_training(tokenizer: Tokenizer) -> None:
    production = HFTokenizer(MODEL)
    prompts = Prompts.from_yaml(demo_prompts())
    for split in SPLITS:
        for task in load_tasks(FOLDER / split, format="swebench-task-repo"):
            messages = [
                {"role": "system", "content": prompts.system()},
                {"role": "user", "content": prompts.instance(task.visible(), workdir="/testbed", step_limit=5)},
            ]
            assert production.prompt(messages) == ids(tokenizer, prompt(task.problem_statement.strip()))
    for returncode, text in (
        (0, ""),
        (0, "def fit(text):\n    return text\n\n"),
        (2, "sed: can't read a: No such file\n"),
    ):
        output = Output.of(
            text, returncode=returncode, omitted=0, observation=ObservationSpec(), timed_out=False, timeout=1
        )
        delta = production.delta(prompts.observation(output, ObservationSpec()))
        assert delta == ids(tokenizer, observation(returncode, text))


def test_any_text_survives_the_tokenizer(tokenizer: Tokenizer) -> None:
    for text in ("", "naïve — 日本\t\r\n  x_1+=2**3 ", "a  b\n\n\n   c", "'|' /,/^$/p' <|im_end|>"):
        assert tokenizer.decode(ids(tokenizer, text), skip_special_tokens=False) == text


def test_names_of_the_bundled_tasks_are_whole_tokens(tokenizer: Tokenizer) -> None:
    for entry in load_catalogue():
        for text in (entry.statement, function_source(entry.broken(), entry.function), entry.path):
            tokens = tokenizer.encode(text, add_special_tokens=False).tokens
            spelled = [a + b for a, b in pairwise(tokens) if (a + b).isalpha() and len(a + b) == 2]
            assert not spelled, (entry.instance_id, text)


def test_generated_defects_are_valid_python_and_differ_by_one_fragment() -> None:
    rng = random.Random(11)
    texts = set()
    for _ in range(400):
        defect = random_defect(rng)
        texts.add(defect.kind)
        repaired = defect.source.replace(defect.bad, defect.good, 1)
        assert defect.source.count(defect.bad) == 1
        assert ast.dump(ast.parse(defect.source)) != ast.dump(ast.parse(repaired))
        assert wrong_fragment(defect, rng) not in (defect.bad, defect.good)
    assert texts == set(KINDS)


def test_no_generated_function_is_a_bundled_one() -> None:
    bundled = {function_source(entry.broken(), entry.function).strip() for entry in load_catalogue()}
    names = {entry.function for entry in load_catalogue()}
    rng = random.Random(12)
    generated = [random_defect(rng) for _ in range(3000)]
    assert not bundled & {defect.source.strip() for defect in generated}
    assert not {(e.path, e.function) for e in load_catalogue()} & {(d.path, d.function) for d in generated}
    assert len({defect.function for defect in generated} - names) > 1000


def test_demonstrations_are_as_noisy_as_asked(tokenizer: Tokenizer) -> None:
    rng = random.Random(13)
    correct = unchanged = 0
    for _ in range(600):
        defect = random_defect(rng)
        segments = demonstration(defect, rng, Noise())
        text = "".join(segment.text for segment in segments)
        correct += edit_command(defect.bad, defect.good, defect.path) in text
        unchanged += "sed -i" not in text
        rendered, sampled = encode(segments, lambda part: ids(tokenizer, part))
        assert rendered == ids(tokenizer, text)
        assert len(rendered) == len(sampled)
    assert 0.2 < unchanged / 600 < 0.3
    assert 0.26 < correct / 600 < 0.38


def test_prompts_fit_the_production_agent() -> None:
    assert Prompts.from_yaml(demo_prompts()).reminder(3) == ""
