"""Images of a job in a registry: present, missing, refused, and without an answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from swerl_agent.jobs.faults import Fault
from swerl_agent.jobs.validation import image_faults
from swerl_agent.registry import RegistryCredentials, RegistryLimits

from tests.ports import free_port

LOGIN = RegistryCredentials("me", "secret")
CHALLENGE = {"WWW-Authenticate": 'Basic realm="r"'}


async def _answer(request: web.Request) -> web.Response:
    """`x:gone` is missing, repositories under `private/` need the login, all others are there."""
    if request.path.startswith("/v2/private/") and request.headers.get("Authorization") != LOGIN.header:
        return web.Response(status=401, headers=CHALLENGE)
    return web.Response(status=404 if request.path.endswith("/gone") else 200)


@pytest.fixture
async def registry() -> AsyncIterator[str]:
    """Host and port of the registry."""
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", _answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def faults(images: dict[str, str], logins: dict[str, RegistryCredentials] | None = None) -> list[Fault]:
    return await image_faults(images, RegistryLimits(retries=0), logins or {})


async def test_image_that_is_there_is_no_fault(registry: str) -> None:
    assert await faults({"spec.trainer.image": f"{registry}/x:here"}) == []


async def test_missing_image_is_an_error_at_each_field_that_names_it(registry: str) -> None:
    image = f"{registry}/x:gone"
    found = await faults({"spec.trainer.image": image, "spec.judge.image": image, "spec.image": f"{registry}/x:here"})
    assert [(fault.field, fault.level) for fault in found] == [
        ("spec.trainer.image", "error"),
        ("spec.judge.image", "error"),
    ]
    assert image in found[0].value and found[0].message == "no such image" and "push it" in found[0].remedy


async def test_image_that_needs_a_login_is_a_warning_without_it_and_no_fault_with_it(registry: str) -> None:
    images = {"spec.trainer.image": f"{registry}/private/x:1"}
    [refused] = await faults(images)
    assert (refused.field, refused.level) == ("spec.trainer.image", "warning")
    assert "give pullSecrets" in refused.remedy and refused.message
    assert await faults(images, {registry: LOGIN}) == []


async def test_registry_without_an_answer_is_a_warning_and_never_a_missing_image() -> None:
    host = f"127.0.0.1:{free_port()}"
    [unknown] = await faults({"spec.trainer.image": f"{host}/x:1"})
    assert unknown.level == "warning" and f"{host} cannot be reached" in unknown.message
    assert "only the nodes reach that registry" in unknown.remedy
