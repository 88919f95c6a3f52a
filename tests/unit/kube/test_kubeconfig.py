"""Kubeconfig files as cloud providers and kubectl write them, read for a real client."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from swerl_kube import ConfigError, KubeClient, KubeContext, Unauthorized, Unreachable
from swerl_kube.config import load
from swerl_kube.kubeconfig import read_kubeconfig
from swerl_operator.kube import kopf_login

from tests.forward_proxy import ForwardProxy, proxying
from tests.unit.kube.api_server import ApiServer, certificate, server_tls

Json = dict[str, Any]
Write = Callable[..., Path]

PLUGIN = """#!{python}
import json, pathlib, sys
count = pathlib.Path(__file__).with_suffix(".count")
runs = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(runs))
status = json.loads(pathlib.Path(__file__).with_suffix(".json").read_text())
if "error" in status:
    sys.exit(status["error"])
status = {{name: value.replace("RUN", str(runs)) for name, value in status.items()}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


class Plugin:
    """A credential plugin: a script that prints what `answers` last said, RUN replaced by the number of the run."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "plugin"
        self._path.write_text(PLUGIN.format(python=sys.executable))
        self._path.chmod(self._path.stat().st_mode | stat.S_IXUSR)
        self.user: Json = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "./plugin",
                "interactiveMode": "Never",
                "installHint": "install the plugin",
            }
        }

    def answers(self, **status: str) -> None:
        self._path.with_suffix(".json").write_text(json.dumps(status))

    @property
    def runs(self) -> int:
        return int(self._path.with_suffix(".count").read_text())


def timestamp_in(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a kubeconfig with one context, cluster and user, each called `name`."""

    def write(name: str, cluster: Json, user: Json | None = None, *, current: bool = True, file: str = "") -> Path:
        path = tmp_path / (file or name)
        path.parent.mkdir(exist_ok=True)
        context = {"cluster": name, "user": name, "namespace": f"of-{name}"}
        document: Json = {
            "apiVersion": "v1",
            "kind": "Config",
            "contexts": [{"name": name, "context": context}],
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": user or {"token": name}}],
        }
        path.write_text(json.dumps(document | ({"current-context": name} if current else {})))
        return path

    return write


async def read_pods(client: KubeClient) -> None:
    await client.get("v1", "namespaces", None, "x")


async def test_plugin_token_is_renewed_before_it_expires(write: Write, tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    async with ApiServer() as server:
        path = write("cloud", {"server": f"http://127.0.0.1:{server.port}"}, plugin.user)
        plugin.answers(token="token-RUN", expirationTimestamp=timestamp_in(5))
        async with KubeClient.from_environment(str(path)) as client:
            plugin.answers(token="token-RUN", expirationTimestamp=timestamp_in(3600))
            for _ in range(3):
                await read_pods(client)
        assert server.authorizations == ["Bearer token-2"] * 3 and plugin.runs == 2


async def test_plugin_runs_again_after_the_server_rejected_its_token(write: Write, tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(token="token-RUN")
    async with ApiServer(accepted={"Bearer token-2"}) as server:
        path = write("cloud", {"server": f"http://127.0.0.1:{server.port}"}, plugin.user)
        async with KubeClient.from_environment(str(path)) as client:
            with pytest.raises(Unauthorized):
                await read_pods(client)
            await read_pods(client)
        assert plugin.runs == 2


async def test_plugin_certificate_is_shown_to_the_server(write: Write, tmp_path: Path) -> None:
    pem, key = certificate(tmp_path, "localhost")
    user_certificate, user_key = certificate(tmp_path, "user")
    plugin = Plugin(tmp_path)
    plugin.answers(clientCertificateData=user_certificate.read_text(), clientKeyData=user_key.read_text())
    async with ApiServer(server_tls(pem, key, clients=user_certificate)) as server:
        cluster = {"server": f"https://localhost:{server.port}", "certificate-authority": str(pem)}
        async with KubeClient.from_environment(str(write("cloud", cluster, plugin.user))) as client:
            await read_pods(client)
        assert server.certificates == [True]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({"error": "please log in"}, r"user 'cloud': .*please log in.*\(install the plugin\)"),
        ({"nothing": "here"}, "neither a token nor a client certificate"),
    ],
)
def test_plugin_failure_is_named(write: Write, tmp_path: Path, status: dict[str, str], message: str) -> None:
    plugin = Plugin(tmp_path)
    plugin.answers(**status)
    with pytest.raises(ConfigError, match=message):
        read_kubeconfig([write("cloud", {"server": "http://127.0.0.1:9"}, plugin.user)])


async def test_oidc_token_is_used_by_the_kubernetes_package(write: Write) -> None:
    token = "e30.e30.signature"  # a JWT without `exp`
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token, "idp-issuer-url": "https://issuer"}}}
    async with ApiServer() as server:
        path = write("oidc", {"server": f"http://127.0.0.1:{server.port}"}, user)
        async with KubeClient.from_environment(str(path)) as client:
            await read_pods(client)
        assert server.authorizations == [f"Bearer {token}"]


def test_files_are_merged_as_kubectl_merges_them(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "token").write_text("from-file")
    first = write("a", {"server": "http://first"}, current=False)
    second = write("b", {"server": "http://second"}, {"tokenFile": "token"}, file="other/b")
    third = write("a", {"server": "http://shadowed"}, file="third")
    files = [first, tmp_path / "missing", second, third]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    current, named = load(), load(KubeContext(context="a"))
    assert (current.server, current.namespace) == ("http://second", "of-b"), "the first file that sets one decides"
    assert current.credentials.authorization() == "Bearer from-file", "relative to the file that names it"
    assert (named.server, named.credentials.authorization()) == ("http://first", "Bearer a")
    with pytest.raises(ConfigError, match=r"no entry named 'c' in contexts \(there are: a, b\)"):
        load(KubeContext(context="c"))


async def test_requests_go_through_the_proxy_of_the_cluster(write: Write) -> None:
    async with ApiServer() as server, proxying(ForwardProxy({"api.example": server.port})) as proxy:
        path = write("far", {"server": "http://api.example:6443", "proxy-url": proxy.url})
        async with KubeClient.from_environment(str(path)) as client:
            await read_pods(client)
        assert len(proxy.request_lines) == len(server.authorizations) == 1


async def test_requests_act_as_the_user_that_the_file_names(write: Write) -> None:
    user = {
        "token": "admin",
        "as": "reader",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"Team/é": ["x"]},
    }
    async with ApiServer() as server:
        path = write("a", {"server": f"http://127.0.0.1:{server.port}"}, user)
        async with KubeClient.from_environment(str(path)) as client:
            await read_pods(client)
        assert server.authorizations == ["Bearer admin"]
        assert server.impersonations == [
            [
                ("Impersonate-User", "reader"),
                ("Impersonate-Group", "a"),
                ("Impersonate-Group", "b"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Extra-Team%2F%C3%A9", "x"),
            ]
        ]
    info = await kopf_login(read_kubeconfig([write("b", {"server": "http://x"}, {"token": "admin", "as": "reader"})]))()
    assert info.as_http_headers() == {"Authorization": "Bearer admin", "Impersonate-User": "reader"}


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {"as-groups": ["a"]}, "need the user to act as, in the field `as`"),
        ({"proxy-url": "socks5://proxy:1080"}, {}, r"cluster 'a': proxy-url 'socks5://proxy:1080' is not supported"),
    ],
)
def test_what_cannot_be_honoured_is_refused(write: Write, cluster: Json, user: Json, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_kubeconfig([write("a", {"server": "http://x"} | cluster, user)])


@pytest.mark.parametrize("proxied", [False, True])
async def test_certificate_is_verified_against_the_tls_server_name(write: Write, tmp_path: Path, proxied: bool) -> None:
    pem, key = certificate(tmp_path, "api.internal")
    async with ApiServer(server_tls(pem, key)) as server, proxying(ForwardProxy({"127.0.0.1": server.port})) as proxy:
        cluster: Json = {"server": f"https://127.0.0.1:{server.port}", "certificate-authority": str(pem)}
        cluster |= {"proxy-url": proxy.url} if proxied else {}
        for name, error in [("api.internal", None), ("other.internal", Unreachable), ("", Unreachable)]:
            path = write("tls", cluster | {"tls-server-name": name})
            async with KubeClient.from_environment(str(path)) as client:
                client.options = type(client.options)(read_retries=0)
                if error is None:
                    await read_pods(client)
                else:
                    with pytest.raises(error, match="certificate"):
                        await read_pods(client)
        assert len(server.authorizations) == 1 and bool(proxy.request_lines) is proxied


def test_kubernetes_package_is_imported_only_for_a_plugin(write: Write) -> None:
    code = "import sys, swerl_kube.config as c; c.load(sys.argv[1]); assert 'kubernetes' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code, str(write("plain", {"server": "http://x"}))])
    assert done.returncode == 0


async def test_kopf_logs_in_as_the_operators_client_does(write: Write, tmp_path: Path) -> None:
    plugin = Plugin(tmp_path)
    expiration = timestamp_in(3600)
    plugin.answers(token="token-RUN", expirationTimestamp=expiration)
    pem, _ = certificate(tmp_path, "api.internal")
    cluster = {"server": "https://10.0.0.1", "certificate-authority": str(pem), "tls-server-name": "api.internal"}
    config = read_kubeconfig([write("cloud", cluster | {"proxy-url": "http://proxy:3128"}, plugin.user)])
    login = kopf_login(config)
    info = await login()
    assert info.as_http_headers() == {"Authorization": "Bearer token-1"}
    assert info.as_ssl_context() is config.tls
    assert (info.server, info.proxy_url, info.default_namespace) == (
        "https://10.0.0.1",
        "http://proxy:3128",
        "of-cloud",
    )
    assert info.expiration is not None and info.expiration.strftime("%Y-%m-%dT%H:%M:%SZ") == expiration
    renewed = await login()  # after its expiration, or after a 401
    assert renewed.as_http_headers() == {"Authorization": "Bearer token-2"}
