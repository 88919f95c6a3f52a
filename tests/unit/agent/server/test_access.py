"""Whose requests are refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from swerl_agent.cli import main, parse
from swerl_agent.cli.serve import _access
from swerl_agent.server import RequestDefaults, ServerAccess
from swerl_agent.server.access import _is_token

from .conftest import ENGINE, FakeRunner, Serving, body

REQUEST = json.dumps(body()).encode()


async def test_token_is_needed_for_rollouts_and_not_for_health(serving: Serving, runner: FakeRunner) -> None:
    async with serving(access=ServerAccess("s3cret")) as client:
        status, answer = await client.post(REQUEST)
        assert status == 401 and "Authorization: Bearer TOKEN" in answer["error"]
        for wrong in ("Bearer wrong", "s3cret"):
            assert (await client.post(REQUEST, Authorization=wrong))[0] == 401
        assert (await client.get("/health"))[0] == 200
        assert not runner.requests
        assert (await client.post(REQUEST, Authorization="Bearer s3cret"))[0] == 200


def test_header_that_is_no_text_is_a_wrong_token() -> None:
    assert not _is_token("Bearer \udcff", "s3cret") and _is_token("Bearer s3cret", "s3cret")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_form_of_a_web_page_is_refused(serving: Serving, runner: FakeRunner, kind: str) -> None:
    async with serving() as client:
        status, answer = await client.post(REQUEST, **{"Content-Type": kind})
    assert status == 415 and "Content-Type: application/json" in answer["error"] and not runner.requests


@pytest.mark.parametrize("host", ["attacker.example", "attacker.example:80", "10.0.0.7", ""])
async def test_other_host_is_refused_without_a_token(serving: Serving, runner: FakeRunner, host: str) -> None:
    async with serving() as client:
        assert (await client.post(REQUEST, Host=host))[0] in (400, 403)
        assert not runner.requests
        assert (await client.post(REQUEST, Host="localhost:99"))[0] == 200
    async with serving(access=ServerAccess("s3cret")) as client:
        assert (await client.post(REQUEST, Host="rollouts.internal", Authorization="Bearer s3cret"))[0] == 200


@pytest.mark.parametrize("url", ["http://169.254.169.254/v1", "http://127.0.0.1:10/v1", "https://127.0.0.1:9/v1"])
async def test_engine_must_be_one_of_the_servers(serving: Serving, runner: FakeRunner, url: str) -> None:
    async with serving(defaults=RequestDefaults(engines=("http://127.0.0.1:9",))) as client:
        status, answer = await client.run(sglang_url=url)
        assert status == 400 and "is not an engine of this server; see --allow-engine" in answer["error"]
        assert not runner.requests
        assert (await client.run(sglang_url=ENGINE))[0] == 200


def access(*words: str) -> ServerAccess:
    return _access(parse(["serve", "--tokenizer", "t", *words]))


def test_other_addresses_need_a_token_or_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret\n")
    assert access() == ServerAccess() and access("--host", "::1") == ServerAccess()
    assert access("--host", "0.0.0.0", "--token-file", str(token)) == ServerAccess("s3cret")
    assert access("--host", "0.0.0.0", "--no-token") == ServerAccess(hosts=None)
    assert main(["serve", "--tokenizer", "t", "--host", "0.0.0.0"]) == 2
    assert "give --token-file, or --no-token" in capsys.readouterr().err
    with pytest.raises(click.UsageError, match="exclude each other"):
        access("--no-token", "--token-file", str(token))
    token.write_text(" \n")
    with pytest.raises(click.UsageError, match="is empty"):
        access("--token-file", str(token))
    with pytest.raises(click.UsageError, match="cannot be read"):
        access("--token-file", str(tmp_path / "absent"))


@pytest.mark.parametrize("option", ["--engine", "--allow-engine"])
@pytest.mark.parametrize("url", ["router:30000", "router", "http://", ""])
def test_engine_without_scheme_or_host_is_wrong_usage(option: str, url: str) -> None:
    with pytest.raises(click.UsageError, match=r"no scheme|with scheme and host"):
        parse(["serve", "--tokenizer", "t", option, url])
