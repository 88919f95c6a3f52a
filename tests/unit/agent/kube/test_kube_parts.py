"""Configuration, errors and exec status without a cluster."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from swerl_agent.kube import ApiError, BadRequest, ConfigError, Conflict, ExitStatus, NotFound, ServerError, Token
from swerl_agent.kube.config import from_kubeconfig
from swerl_agent.kube.errors import api_error
from swerl_agent.kube.exec import parse_status
from swerl_agent.kube.paths import resource_path

from tests.kubeconfig import write_kubeconfig


def kubeconfig(folder: Path, **user: str) -> Path:
    return Path(write_kubeconfig(folder / "config", "http://127.0.0.1:8080/", namespace="here", user=user))


def test_a_kubeconfig_gives_server_namespace_and_token(tmp_path: Path) -> None:
    found = from_kubeconfig(kubeconfig(tmp_path, token="secret"))
    assert (found.server, found.namespace, found.token.read()) == ("http://127.0.0.1:8080", "here", "secret")


def test_a_token_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    token = from_kubeconfig(kubeconfig(tmp_path, tokenFile="token")).token
    assert token.read() == "first"
    (tmp_path / "token").write_text("second\n")
    os.utime(tmp_path / "token", (1, 1))
    assert token.read() == "second"


@pytest.mark.parametrize(
    ("user", "message"),
    [({"exec": "x"}, "plugins are not supported"), ({"tokenFile": "gone"}, "cannot read the service account token")],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, user: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        from_kubeconfig(kubeconfig(tmp_path, **user)).token.read()


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere"):
        from_kubeconfig(tmp_path / "nowhere")
    assert Token().read() is None


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotFound), (409, Conflict), (422, BadRequest), (503, ServerError), (418, ApiError)]
)
def test_answers_become_typed_errors(status: int, kind: type[ApiError]) -> None:
    body = json.dumps({"kind": "Status", "reason": "AlreadyExists", "message": "it is there"})
    error = api_error(status, body, what="POST /x")
    assert type(error) is kind and error.reason == "AlreadyExists" and "POST /x: it is there" in str(error)
    assert "<html>" in str(api_error(status, "<html>", what="GET /"))


def test_exit_codes_are_read_from_the_status_channel() -> None:
    failed = {"status": "Failure", "message": "m", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}
    assert parse_status(json.dumps(failed).encode()) == ExitStatus(7, "m")
    assert parse_status(b"status: Success\n") == ExitStatus(0, "")
    assert parse_status(b'{"status":"Failure","message":"no runtime"}') == ExitStatus(None, "no runtime")
    assert parse_status(b"\xff").code is None


def test_paths() -> None:
    assert resource_path("v1", "pods", "n", "p", "exec") == "/api/v1/namespaces/n/pods/p/exec"
    assert resource_path("swerl.dev/v1alpha1", "swesandboxes") == "/apis/swerl.dev/v1alpha1/swesandboxes"
