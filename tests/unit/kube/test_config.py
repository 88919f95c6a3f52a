"""Configuration, errors and exec status without a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from swerl_kube import (
    ApiError,
    BadRequest,
    ConfigError,
    Conflict,
    ExitStatus,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    WebhookFailed,
)
from swerl_kube.credentials import Credentials
from swerl_kube.errors import answer_error
from swerl_kube.exec import parse_status
from swerl_kube.kubeconfig import read_kubeconfig
from swerl_kube.paths import resource_path

from tests.kubeconfig import write_kubeconfig


def kubeconfig(folder: Path, **user: Any) -> Path:
    return Path(write_kubeconfig(folder / "config", "http://127.0.0.1:8080/", namespace="here", user=user))


def test_kubeconfig_gives_server_namespace_and_token(tmp_path: Path) -> None:
    found = read_kubeconfig([kubeconfig(tmp_path, token="secret")])
    assert (found.server, found.namespace, found.credentials.authorization()) == (
        "http://127.0.0.1:8080",
        "here",
        "Bearer secret",
    )


def test_token_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    token = read_kubeconfig([kubeconfig(tmp_path, tokenFile="token")]).credentials
    assert token.authorization() == "Bearer first"
    (tmp_path / "token").write_text("second\n")
    os.utime(tmp_path / "token", (1, 1))
    assert token.authorization() == "Bearer second"


@pytest.mark.parametrize(
    ("user", "message"),
    [
        ({"exec": {"command": "x"}}, "user 'u': its credential plugin failed"),
        ({"tokenFile": "gone"}, "cannot read the token file"),
    ],
)
def test_unusable_credentials_are_named(tmp_path: Path, user: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_kubeconfig([kubeconfig(tmp_path, **user)]).credentials.authorization()


def test_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        read_kubeconfig([tmp_path / "nowhere"])
    assert Credentials().authorization() is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFound), (409, Conflict), (400, BadRequest), (422, Invalid), (503, ServerError), (418, ApiError)],
)
def test_answers_become_typed_errors(status: int, kind: type[KubeError]) -> None:
    body = json.dumps({"kind": "Status", "reason": "AlreadyExists", "message": "it is there"})
    error = answer_error("POST /x", status, body)
    assert type(error) is kind and error.reason == "AlreadyExists"
    assert str(error) == f"POST /x: {status} AlreadyExists: it is there"
    assert "<html>" in str(answer_error("GET /", status, "<html>"))


def test_webhook_that_does_not_answer_is_an_error_of_its_own() -> None:
    text = 'Internal error occurred: failed calling webhook "policy.example.org": connection refused'
    error = answer_error("POST /x", 500, json.dumps({"kind": "Status", "reason": "InternalError", "message": text}))
    assert type(error) is WebhookFailed and error.message == text


def test_exit_codes_are_read_from_the_status_channel() -> None:
    failed = {"status": "Failure", "message": "m", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}
    assert parse_status(json.dumps(failed).encode()) == ExitStatus(7, "m")
    assert parse_status(b"status: Success\n") == ExitStatus(0, "")
    assert parse_status(b'{"status":"Failure","message":"no runtime"}') == ExitStatus(None, "no runtime")
    assert parse_status(b"\xff").code is None


def test_paths() -> None:
    assert resource_path("v1", "pods", "n", "p", "exec") == "/api/v1/namespaces/n/pods/p/exec"
    assert resource_path("swerl.dev/v1alpha1", "swesandboxes") == "/apis/swerl.dev/v1alpha1/swesandboxes"
