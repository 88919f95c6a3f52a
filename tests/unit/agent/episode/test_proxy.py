"""Endpoints behind a real proxy: outside ones are reached through it, those of the cluster never."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from swerl_agent.episode import (
    ChatCompletions,
    EndpointError,
    EngineError,
    RetryPolicy,
    SGLangEngine,
    environment_proxy,
)
from swerl_agent.episode.proxy import is_inside

from tests.chat_server import MODEL, ChatServer, scripted, serving
from tests.forward_proxy import ForwardProxy, proxying

KEY = "sk-very-secret-0123456789"
EXTERNAL_HOST = "models.example.org"
HI = [{"role": "user", "content": "Hi"}]
ONCE = RetryPolicy(retries=0)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def unknown_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a network whose own DNS knows no public names."""

    async def nothing(self: object, host: str, *args: object, **kwargs: object) -> list[object]:
        endpoints = {"router.serving": [(2, 1, 6, "", ("10.96.3.4", 0))]}
        if host in endpoints:
            return [*endpoints[host]]
        raise OSError("Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", nothing)


async def complete(http: aiohttp.ClientSession, url: str) -> str:
    chat = ChatCompletions(url, http, model=MODEL, api_key=KEY, proxy=await environment_proxy(url), retry_policy=ONCE)
    return (await chat.complete(HI, max_tokens=9, temperature=0.7)).text


def port(url: str) -> int:
    return urlsplit(url).port or 0


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
async def test_outside_endpoint_is_reached_through_the_proxy(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ChatServer(scripted("Hello"), key=KEY)) as server:
        proxy = ForwardProxy({EXTERNAL_HOST: port(server.url)}, login="me:pass word")
        async with proxying(proxy), aiohttp.ClientSession() as http:
            monkeypatch.setenv(variable, proxy.url.replace("//", "//me:pass%20word@"))
            assert await complete(http, f"http://{EXTERNAL_HOST}/v1") == "Hello"
    assert proxy.request_lines == [f"POST http://{EXTERNAL_HOST}/v1/chat/completions HTTP/1.1"]


async def test_encrypted_endpoint_is_reached_through_a_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-subj",
        f"/CN={EXTERNAL_HOST}",
        "-days",
        "1",
    ]
    command += ["-addext", f"subjectAltName=DNS:{EXTERNAL_HOST}", "-keyout", str(key), "-out", str(certificate)]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    server_context, client_context = (
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        ssl.create_default_context(cafile=certificate),
    )
    server_context.load_cert_chain(certificate, key)
    server, application = ChatServer(scripted("Hello"), key=KEY), web.Application()
    application.router.add_post("/v1/chat/completions", server.complete)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=server_context).start()
    proxy = ForwardProxy({EXTERNAL_HOST: runner.addresses[0][1]})
    async with proxying(proxy), aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client_context)) as http:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert await complete(http, f"https://{EXTERNAL_HOST}/v1") == "Hello"
    await runner.cleanup()
    assert proxy.request_lines == [f"CONNECT {EXTERNAL_HOST}:443 HTTP/1.1"], "the proxy sees neither key nor messages"


async def test_proxy_that_refuses_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = ForwardProxy({}, login="me:right")
    async with proxying(proxy), aiohttp.ClientSession() as http:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:wrong-one@"))
        with pytest.raises(EngineError, match="407") as caught:
            await complete(http, f"https://{EXTERNAL_HOST}/v1")
    assert "wrong-one" not in str(caught.value) and KEY not in str(caught.value)


async def test_cluster_requests_ignore_proxy_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(ChatServer(scripted("Hello"), key=KEY)) as server:
        proxy = ForwardProxy({"127.0.0.1": port(server.url)})
        async with proxying(proxy), aiohttp.ClientSession() as http:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            assert await complete(http, server.url) == "Hello"
    assert proxy.request_lines == []


async def test_engine_requests_ignore_proxy_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    async def generate(request: web.Request) -> web.Response:
        meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-0.5, 7, None]]}
        return web.json_response({"output_ids": [7], "meta_info": meta})

    application = web.Application()
    application.router.add_post("/generate", generate)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with proxying(ForwardProxy({"127.0.0.1": port})) as proxy, aiohttp.ClientSession() as http:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        engine = SGLangEngine(f"http://127.0.0.1:{port}", http, retry_policy=ONCE)
        generation = await engine.generate([1], max_new_tokens=1, temperature=1, stop_token_ids=[], routing_key="g")
    await runner.cleanup()
    assert (generation.output_ids, proxy.request_lines) == ([7], [])


@pytest.mark.parametrize(
    ("no_proxy", "proxied"),
    [("", True), ("example.org", False), (".example.org,other", False), ("*", False), ("other.org", True)],
)
async def test_no_proxy_is_respected(no_proxy: str, proxied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy.corp:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    found = await environment_proxy(f"https://{EXTERNAL_HOST}/v1")
    assert (str(found.url) if found else None) == ("http://proxy.corp:3128" if proxied else None)
    assert await environment_proxy(f"http://{EXTERNAL_HOST}/v1") is None, "that is for https alone"


async def test_invalid_proxy_is_reported_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "socks5://me:secret@proxy:1080")
    with pytest.raises(EndpointError, match=r"^HTTPS_PROXY is not a usable proxy address: .* to NO_PROXY$"):
        await environment_proxy(f"https://{EXTERNAL_HOST}/v1")


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("router", True),
        ("router.serving", True),  # as the cluster's DNS knows it
        ("router.serving.svc", True),
        ("router.serving.svc.cluster.local", True),
        ("localhost", True),
        ("127.0.0.1", True),
        ("10.96.0.7", True),
        ("fd00::7", True),
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        (EXTERNAL_HOST, False),
    ],
)
async def test_hosts_inside_the_cluster_are_recognised(host: str, inside: bool) -> None:
    assert await is_inside(host) is inside
