"""What a trainer may send, and how what it must not send is named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from swerl_agent.server import InvalidRequest, RequestDefaults, RunRequest, read_request
from swerl_agent.tasks.importing import ImportRequest

from tests.unit.agent.tasks.rows import SCRIPT, kiro, nemo_gym, prompt_line, r2e, sumanth, swe_gym, swebench

from .conftest import ENGINE, body

GYM_IMAGE = "docker.io/xingyaoww/sweb.eval.x86_64.getmoto_s_moto-5876:latest"


def read(values: Any, defaults: RequestDefaults | None = None) -> RunRequest:
    return read_request(json.dumps(values).encode(), defaults or RequestDefaults())


def test_row_is_a_task_and_the_native_engine_api_is_used() -> None:
    request = read(body())
    assert (request.task.image, request.task.instance_id) == (GYM_IMAGE, "getmoto__moto-5876")
    assert request.task.ground_truth.patch == sumanth()["patch"]
    assert (request.engine, request.subset) == ("http://127.0.0.1:9", "gym")


@pytest.mark.parametrize("url", ["http://router:30000/v1", "http://router:30000/v1/", "http://router:30000"])
def test_openai_endpoint_of_an_engine_names_its_host(url: str) -> None:
    assert read(body(sglang_url=url)).engine == "http://router:30000"


@pytest.mark.parametrize(
    ("row", "task"),
    [
        (prompt_line(sumanth(), "gym", "train"), "getmoto__moto-5876"),
        (kiro(sumanth(), "swe-gym"), "getmoto__moto-5876"),
        (nemo_gym(sumanth(), "SWE-Gym/SWE-Gym", "train"), "getmoto__moto-5876"),
        (swebench(), "django__django-13820"),
        (r2e("a" * 40), f"orange3-{'a' * 40}"),
    ],
    ids=["prompt", "kiro", "nemo-gym", "swe-bench", "r2e"],
)
def test_every_shape_of_row_is_a_task(row: dict[str, Any], task: str) -> None:
    request = read({"sglang_url": ENGINE, **row})
    assert request.task.instance_id == request.instance_id == task


def test_rows_without_a_script_use_the_servers() -> None:
    fields = {"sglang_url": ENGINE, "subset": "gym", **swe_gym(repo="a/b")}
    with pytest.raises(InvalidRequest, match="no eval script"):
        read(fields)
    import_request = ImportRequest(purpose="evaluation", scripts={"getmoto__moto-5876": SCRIPT})
    assert read(fields, RequestDefaults(import_request=import_request)).task.ground_truth.eval_script == SCRIPT


def test_sampling_parameters_override_the_response_and_the_server() -> None:
    fields = {"responses_create_params": {"input": [], "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 64}}
    first = read(body(**fields)).sampling
    assert (first.temperature, first.top_p, first.top_k, first.max_new_tokens) == (0.8, 1.0, -1, 512)
    second = read(body(**fields, sampling_params={"temperature": None, "stop": [], "repetition_penalty": 1.0})).sampling
    assert (second.temperature, second.top_p, second.max_new_tokens) == (0.5, 0.9, 64)
    third = read({"sglang_url": ENGINE, **swebench()}, RequestDefaults(temperature=0.7)).sampling
    assert (third.temperature, third.top_p, third.max_new_tokens) == (0.7, 1.0, None)
    assert read(body(sampling_params={"temperature": 0})).sampling.temperature == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sampling_params": {"temperature": -1}}, "field sampling_params.temperature"),
        ({"sampling_params": {"top_p": 0}}, "field sampling_params.top_p"),
        ({"sampling_params": {"stop": ["```"]}}, "field sampling_params.stop"),
        ({"sampling_params": {"repetition_penalty": 1.1}}, "field sampling_params.repetition_penalty"),
        ({"sampling_params": 3}, "field sampling_params"),
        ({"responses_create_params": {"max_output_tokens": 0}}, "field responses_create_params.max_output_tokens"),
        ({"sglang_url": "router"}, "field sglang_url"),
        ({"sglang_url": None}, "field sglang_url is missing"),
        ({"instance_id": 7}, "field instance_id"),
        ({"base_commit": None}, "field base_commit is missing"),
        ({"FAIL_TO_PASS": "nonsense"}, "field FAIL_TO_PASS"),
        ({"patch": 3}, "field patch"),
        ({"subset": "unknown"}, "no image"),
    ],
)
def test_field_of_an_invalid_request_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest, match=field):
        read(body(**changes))


@pytest.mark.parametrize("data", [b"", b"\xff", b"[]", b"3"])
def test_body_without_a_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="JSON"):
        read_request(data, RequestDefaults())


def test_engine_may_be_the_servers_or_not_be_needed() -> None:
    assert read(body(sglang_url=None), RequestDefaults(engine="http://mine:1")).engine == "http://mine:1"
    assert read(body(sglang_url=None), RequestDefaults(engine_needed=False)).engine == ""
