"""Rows in the forms in which data sets hold them: lists, ids, images, scripts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from swerl_agent.tasks import TaskError, image_name
from swerl_agent.tasks.rows import Row
from swerl_agent.tasks.task import task_from_row

from tests.unit.agent.tasks.rows import sumanth as row


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("Reg:5000/Sweap-Images:NodeBB.NodeBB-vNaN", "reg:5000/sweap-images:NodeBB.NodeBB-vNaN"),
        ("Reg:5000/A/B", "reg:5000/a/b"),
        ("a/b@sha256:AB", "a/b@sha256:AB"),
        ("A/b:V1@sha256:cd", "a/b:V1@sha256:cd"),
    ],
)
def test_tags_and_digests_keep_their_case(image: str, expected: str) -> None:
    assert image_name({"image": image}, "") == expected


@pytest.mark.parametrize("source", ["owner/SWE-bench_Pro", "my-swe-bench-like", "swe-gym/other", ""])
def test_unknown_set_has_no_naming_rule(source: str) -> None:
    with pytest.raises(ValueError, match="no naming rule is known for data source"):
        image_name({"instance_id": "a__b-1"}, source)


TESTS = ["t.py::a", "t.py::b"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"PASS_TO_PASS": TESTS}, ("t.py::a", "t.py::b")),
        ({"PASS_TO_PASS": json.dumps(TESTS)}, ("t.py::a", "t.py::b")),
        ({"PASS_TO_PASS": repr(TESTS)}, ("t.py::a", "t.py::b")),
        ({"pass_to_pass": repr(TESTS)}, ("t.py::a", "t.py::b")),
        ({"PASS_TO_PASS": [*TESTS, *TESTS]}, ("t.py::a", "t.py::b")),
        ({"PASS_TO_PASS": [*TESTS, "t.py::fixed"]}, ("t.py::a", "t.py::b")),
        ({"PASS_TO_PASS": None}, ()),
        ({"PASS_TO_PASS": ""}, ()),
        ({}, ()),
    ],
)
def test_lists_of_tests_are_read_in_every_form(columns: dict[str, Any], expected: tuple[str, ...]) -> None:
    columns_given = {key: value for key, value in row().items() if key != "PASS_TO_PASS"}
    columns_given |= {"image": "a:1", "FAIL_TO_PASS": ["t.py::fixed"], **columns}
    ground_truth = task_from_row(Row(columns_given), where="here", image="a:1").ground_truth
    assert (ground_truth.fail_to_pass, ground_truth.pass_to_pass) == (("t.py::fixed",), expected)


def test_script_with_crlf_is_read_with_lf() -> None:
    columns_given = row() | {"eval_script": "#!/bin/bash\r\npytest\r\n"}
    assert (
        task_from_row(Row(columns_given), where="here", image="a:1").ground_truth.eval_script == "#!/bin/bash\npytest\n"
    )


@pytest.mark.parametrize("name", ["../../outside/x", "has space\n", "é", "", ".hidden", "a/b"])
def test_id_that_cannot_name_a_folder_is_refused(name: str) -> None:
    with pytest.raises(TaskError, match="instance_id"):
        task_from_row(Row(row() | {"instance_id": name}), where="here", image="a:1")


@pytest.mark.parametrize(
    "name", ["instance_NodeBB__NodeBB-00c70ce7-vNaN", "oauthlib__oauthlib.1fd52536.file__09vlzwgc"]
)
def test_ids_of_other_sets_are_kept(name: str) -> None:
    assert task_from_row(Row(row() | {"instance_id": name}), where="here", image="a:1").instance_id == name
