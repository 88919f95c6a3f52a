"""Arguments of engines that a job may not set."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from swerl_api import SweRLJobSpec
from swerl_api.engine_arguments import REFUSED, argument_problem

from .test_models import MINIMAL


@pytest.mark.parametrize("name", REFUSED)
def test_both_spellings_and_abbreviations_are_refused(name: str) -> None:
    for spelling in (name, name.replace("-", "_"), name[:-1]):
        problem = argument_problem({spelling: "x"})
        assert problem.startswith(f"{spelling}: 'x' is refused") and "; " in problem


@pytest.mark.parametrize(
    "arguments",
    [
        {"host=0.0.0.0": True},
        {"--trust-remote-code": True},
        {"schedule-policy": "--trust-remote-code"},
        {"stop-words": ["a", "--port"]},
        {"log-level": "-x"},
        {"log-level info": True},
    ],
)
def test_no_name_and_no_value_adds_an_argument(arguments: dict[str, Any]) -> None:
    assert argument_problem(arguments)


def test_tuning_is_free() -> None:
    tuning = {"mem-fraction-static": 0.6, "enable-metrics": True, "max_total_tokens": 9, "cuda-graph-bs": [1, 2]}
    assert argument_problem(tuning | {"chunked-prefill-size": -1, "load-format": "auto", "random-seed": "-1"}) == ""


def test_job_with_a_refused_argument_is_invalid() -> None:
    arguments = {"engineArgs": {"trust_remote_code": True}}
    with pytest.raises(ValidationError, match="trust_remote_code: True is refused: it runs code"):
        SweRLJobSpec.from_stored(MINIMAL | {"rollout": arguments})
