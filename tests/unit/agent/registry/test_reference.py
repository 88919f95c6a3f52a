"""Image references and logins are read as container runtimes read them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from swerl_agent.registry import CredentialError, ReferenceError, parse_reference, read_credentials

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "registry", "repository", "version"),
    [
        ("ubuntu", "docker.io", "library/ubuntu", "latest"),
        ("x/y:1", "docker.io", "x/y", "1"),
        ("index.docker.io/x/y", "docker.io", "x/y", "latest"),
        (
            "docker.io/xingyaoww/sweb.eval.x86_64.a_s_b-1:latest",
            "docker.io",
            "xingyaoww/sweb.eval.x86_64.a_s_b-1",
            "latest",
        ),
        ("mirror:5000/x:NodeBB__NodeBB-vNaN", "mirror:5000", "x", "NodeBB__NodeBB-vNaN"),
        ("localhost/x", "localhost", "x", "latest"),
        (f"r.example.org/a/b/c:1@{DIGEST}", "r.example.org", "a/b/c", DIGEST),
    ],
)
def test_registry_repository_and_version(text: str, registry: str, repository: str, version: str) -> None:
    found = parse_reference(text)
    assert (found.registry, found.repository, found.version) == (registry, repository, version)


@pytest.mark.parametrize("text", ["", "x/Y:1", "x:", "x:a b", "x@sha256:12", "x//y", "-x", "x/y:" + "t" * 129])
def test_invalid_reference_is_refused(text: str) -> None:
    with pytest.raises(ReferenceError, match="is not an image reference"):
        parse_reference(text)


def test_logins_of_a_docker_config(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    auth = base64.b64encode(b"me:se:cret").decode()
    logins = {
        "https://index.docker.io/v1/": {"auth": auth},
        "mirror:5000": {"username": "a", "password": "b"},
        "helped.example.org": {},
    }
    path.write_text(json.dumps({"auths": logins, "credsStore": "desktop"}))
    found = read_credentials(path)
    assert set(found) == {"docker.io", "mirror:5000"}
    assert (found["docker.io"].user, found["docker.io"].password) == ("me", "se:cret")
    assert "se:cret" not in repr(found)


@pytest.mark.parametrize("content", ["{", '{"auths": []}', '{"auths": {"r": 1}}', '{"auths": {"r": {"auth": "%"}}}'])
def test_file_without_logins_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(content if content != '{"auths": []}' else '{"auths": [1]}')
    with pytest.raises(CredentialError, match=r"config\.json"):
        read_credentials(path)
