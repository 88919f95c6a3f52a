"""The operator process: leader election, then kopf and the background loops of the controllers, then an orderly end.

Guarantees: no handler runs before this process leads; a lost Lease, a loop or a watch that ends stops the process, and
its Deployment starts it again; a signal releases the Lease before the end.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import suppress
from typing import Any

import kopf
from swerl_api import API_VERSION
from swerl_api.crd import KINDS
from swerl_kube import KubeClient, NotFound, Unavailable

from . import evals, images, jobs, orphan_gc, sandboxes
from .context import OperatorContext, Settings
from .errors import OperatorError
from .health import Health, serve_health, serve_metrics
from .kube import kopf_login, operator_client
from .leader import Leader
from .metrics import Metrics

CONTROLLERS = (jobs, sandboxes, images, evals, orphan_gc)
CRD_POLL_SECONDS = 5.0

logger = logging.getLogger(__name__)


async def run(settings: Settings) -> None:
    """Run until a signal; raises the error that ended it otherwise."""
    metrics = Metrics()
    stop = asyncio.Event()
    _stop_on_signals(stop)
    async with operator_client(metrics) as api:
        leader = Leader(api, metrics, settings.lease_namespace, settings.lease_name, settings.identity)
        health = Health(leader)
        async with serve_health(health, settings.health_port), serve_metrics(metrics, settings.metrics_port):
            if not await _run_unless_stopped(stop, leader.acquire()):
                return
            try:
                context = OperatorContext(settings, api, metrics, is_leader=lambda: leader.renewed > 0)
                await _run_as_leader(context, leader, health, stop)
            finally:
                await leader.release()


async def _run_as_leader(context: OperatorContext, leader: Leader, health: Health, stop: asyncio.Event) -> None:
    """Run the controllers until `stop`; raises the error of the first one that ends."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login")(kopf_login(context.api.config))
    for controller in CONTROLLERS:
        controller.register(registry, context)
    tasks = [asyncio.create_task(leader.renew_until_lost(), name="leader lease")]
    tasks.append(asyncio.create_task(_wait_for_stop(stop), name="stop signal"))
    try:
        if not await _run_unless_stopped(stop, _wait_for_crds(context.api), *tasks[:1]):
            return
        tasks += [
            asyncio.create_task(_fail_if_ended(name, loop()), name=name) for name, loop in context.background.items()
        ]
        tasks.append(asyncio.create_task(_run_kopf(registry, context.settings, health, stop), name="kopf"))
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        stop.set()
        await _cancel(tasks)


async def _run_kopf(registry: kopf.OperatorRegistry, settings: Settings, health: Health, stop: asyncio.Event) -> None:
    namespaces: dict[str, Any] = {"namespaces": settings.namespaces} if settings.namespaces else {"clusterwide": True}
    others = asyncio.all_tasks()
    tasks = await kopf.spawn_tasks(
        registry=registry,
        settings=kopf_settings(),
        standalone=True,
        ready_flag=health.serving,
        stop_flag=stop,
        **namespaces,
    )
    _stop_on_signals(stop)  # replaces the handlers of kopf, which would end it before the controllers
    await kopf.run_tasks(tasks, ignored=others)


def kopf_settings() -> kopf.OperatorSettings:
    """Timeouts that end a watch without events; no annotations, no log lines as Events, no cluster-wide scanning."""
    settings = kopf.OperatorSettings()
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330
    settings.watching.connect_timeout = 10
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = 15
    settings.networking.connect_timeout = 5
    settings.scanning.disabled = True
    settings.posting.loggers = False
    settings.posting.reporting_component = "swe-rl-operator"
    settings.posting.event_name_prefix = "swerl-"
    settings.process.ultimate_exiting_timeout = 30
    return settings


async def _wait_for_crds(api: KubeClient) -> None:
    """Return once the API server serves the CRDs: kopf checks only once."""
    required = {kind.plural for kind in KINDS}
    while True:
        missing = required
        with suppress(NotFound, Unavailable):
            served = await api.request("GET", f"/apis/{API_VERSION}")
            missing = required - {resource["name"] for resource in served["resources"]}
        if not missing:
            return
        logger.error(
            "CRDs not installed: %s; install them with `kubectl apply --server-side -f crds/`", sorted(missing)
        )
        await asyncio.sleep(CRD_POLL_SECONDS)


async def _fail_if_ended(name: str, loop: Any) -> None:
    await loop
    raise OperatorError(f"background loop {name!r} ended unexpectedly")


async def _wait_for_stop(stop: asyncio.Event) -> None:
    await stop.wait()


async def _run_unless_stopped(stop: asyncio.Event, work: Any, *guards: asyncio.Task[None]) -> bool:
    """Await `work`; False if `stop` came first. A guard that ends first raises its error."""
    task, stopped = asyncio.ensure_future(work), asyncio.create_task(_wait_for_stop(stop))
    await asyncio.wait([task, stopped, *guards], return_when=asyncio.FIRST_COMPLETED)
    await _cancel([t for t in (task, stopped) if not t.done()])
    for guard in guards:
        if guard.done():
            guard.result()
    if task.done() and not task.cancelled():
        task.result()
        return True
    return False


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _stop_on_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
