"""The page on launch scripts has each of their flags, and names only fields of SweRLJob."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from swerl_api import SweRLJobSpec

from .pages import ROOT

PAGE = ROOT / "docs/from-scripts.md"
FIELD = re.compile(r"`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z]*)*)(?:: [a-z0-9]+)?`")

# Flags and variables of OpenClaw's run_swe_rl.sh (1 node), run_swe_rl_4b_4nodes_colocate.sh, and the judge's script.
FLAGS = """
--accumulate-allreduce-grads-in-fp32 --actor-num-gpus-per-node --actor-num-nodes --adam-beta1 --adam-beta2
--advantage-estimator --attention-backend --attention-dropout --attention-softmax-in-fp32 --balance-data --colocate
--context-parallel-size --custom-generate-function-path --custom-rm-path --dynamic-sampling-filter-path --entropy-coef
--eps-clip --eps-clip-high --expert-model-parallel-size --expert-tensor-parallel-size --hf-checkpoint --hidden-dropout
--input-key --kl-loss-coef --kl-loss-type --load --log-probs-chunk-size --lr --lr-decay-style --max-tokens-per-gpu
--megatron-to-hf-mode --metadata-key --n-samples-per-prompt --num-rollout --num-steps-per-rollout --optimizer
--optimizer-cpu-offload --overlap-cpu-optimizer-d2h-h2d --pipeline-model-parallel-size --prompt-data
--recompute-granularity --recompute-method --recompute-num-layers --ref-load --reward-key --rollout-batch-size
--rollout-max-context-len --rollout-max-response-len --rollout-num-gpus --rollout-num-gpus-per-engine --rollout-shuffle
--rollout-temperature --rollout-top-p --save --save-interval --sequence-parallel --sglang-mem-fraction-static
--sglang-router-port --tensor-model-parallel-size --use-dynamic-batch-size --use-kl-loss
--use-precision-aware-optimizer --use-wandb --wandb-group --wandb-key --wandb-project --weight-decay
--dynamic-history --prm-enable --prm-m --prm-max-new-tokens --prm-model-path --prm-num-gpus --prm-num-gpus-per-engine
--prm-step-coef --prm-temperature --swe-prm-max-history-output-len --swe-prm-max-history-steps
--swe-prm-max-output-len --swe-prm-max-problem-len --swe-prm-skip-submit
LITELLM_MODEL_REGISTRY_PATH MSWEA_DOCKER_EXEC_MODE NO_PROXY OPENAI_API_KEY OPENAI_BASE_URL SWE_CONFIG_PATH
SWE_CONTAINER_MEMORY SWE_CONTAINER_PIDS_LIMIT SWE_DOCKER_REGISTRY SWE_ENV_SERVER_BIND_HOST SWE_ENV_SERVER_PORT
SWE_ENV_SERVER_URL SWE_EVAL_TIMEOUT SWE_EXEC_SERVER_URLS SWE_LITELLM_MODEL_NAME SWE_MAX_CONCURRENT
SWE_MAX_CONTAINERS_PER_NODE SWE_PRM_MAX_CONCURRENCY SWE_ROLLOUT_TIMEOUT SWE_SAVE_TRAJ_DIR SWE_STEP_LIMIT
SWE_STRICT_NO_CONFIG_PATCH SWE_STRICT_NO_TEST_PATCH SWE_TEST_PATCH_POLICY_SCOPE WANDB_API_KEY
"""
# Flags of the launch scripts of slime and miles that OpenClaw's have not.
FLAGS_OF_SLIME_AND_MILES = """
--apply-chat-template --custom-config-path --debug-rollout-only --debug-train-only --dump-details --eps-clip-c
--eval-interval --eval-max-response-len --eval-prompt-data --eval-top-p --get-mismatch-metrics --global-batch-size
--kl-coef --label-key --load-debug-rollout-data --lora-alpha --lora-rank --lr-warmup-iters --n-samples-per-eval-prompt
--over-sampling-batch-size --partial-rollout --rm-type --rollout-external-engine-addrs --rollout-top-k
--router-external-host --router-policy --save-debug-rollout-data --sglang-config --swe-cm-head-ratio --tis-clip
--tis-clip-low --tito-model --update-weight-buffer-size --update-weight-disk-dir --update-weight-local-checkpoint-dir
--update-weight-mode --update-weight-transport --use-fault-tolerance --use-rollout-logprobs --use-session-server
--use-tis
"""


def flags(text: str) -> set[str]:
    """Flags and variables that `text` names, each in its own quotes and with or without a value."""
    return set(re.findall(r"`(--[a-z][a-z0-9-]+|[A-Z][A-Z0-9_]+)(?: [a-z]+)?`", text))


@pytest.mark.parametrize("flag", [*FLAGS.split(), *FLAGS_OF_SLIME_AND_MILES.split()])
def test_page_has_each_flag_of_the_scripts(flag: str) -> None:
    assert flag in flags(PAGE.read_text()), f"add a row for {flag}: the field, or why it is not needed"


def test_longer_flag_does_not_stand_for_a_shorter_one() -> None:
    assert flags("| `--kl-loss-coef`, `--optimizer adam` | `SWE_X_Y` |") == {"--kl-loss-coef", "--optimizer", "SWE_X_Y"}


def fields(text: str) -> Iterator[str]:
    """Fields in the right columns of the page's table of flags."""
    rows = text.partition("## Flags")[2].partition("## Resume")[0].splitlines()
    for row in rows:
        cells = row.split(" | ")
        if len(cells) == 2:
            yield from (found for found in FIELD.findall(cells[1]) if "." in found or found in ("colocate", "retries"))


def has_field(model: Any, path: str) -> bool:
    """Whether `model` has the camelCase field at `path`."""
    name, _, rest = path.partition(".")
    field = next((each for each in model.model_fields.values() if each.alias == name), None)
    if field is None or not rest:
        return field is not None
    inner = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
    return any(issubclass(each, BaseModel) and has_field(each, rest) for each in inner)


def test_page_names_many_fields() -> None:
    assert len(set(fields(PAGE.read_text()))) > 60


@pytest.mark.parametrize("path", sorted(set(fields(PAGE.read_text()))))
def test_named_field_exists(path: str) -> None:
    assert has_field(SweRLJobSpec, path)


def test_unknown_field_is_found() -> None:
    assert list(fields("## Flags\n| `--x` | `trainer.tensors: 2` |\n")) == ["trainer.tensors"]
    assert not has_field(SweRLJobSpec, "trainer.tensors")
    assert not has_field(SweRLJobSpec, "judge.view.words")


def test_every_example_job_is_named() -> None:
    jobs = {path.name for path in ROOT.glob("examples/swerljob-*.yaml")} - {"swerljob-mini-swe-agent.yaml"}
    assert {name for name in jobs if f"](../examples/{name})" not in PAGE.read_text()} == set()
