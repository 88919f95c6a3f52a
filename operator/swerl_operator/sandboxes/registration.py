"""How the sandbox plane joins the operator.

Guarantee: no annotation, finalizer or progress is ever written to a SweSandbox or Pod: kopf has no handler for them,
the plane's own `Feed` watches both.
"""

from __future__ import annotations

from contextlib import suppress

import kopf
from swerl_api.isolation import own_address

from ..context import OperatorContext
from .api import Cluster
from .image_pulls import Pulls
from .informer import Feed
from .isolation_check import Proofs
from .metrics import SandboxMetrics
from .network_policy import DenyAll
from .reconciler import Controller
from .settings import SandboxSettings
from .store import Store
from .usage import Usage


def register(
    registry: kopf.OperatorRegistry, context: OperatorContext, settings: SandboxSettings | None = None
) -> None:
    """Add the background loops; `settings` default to the built-in figures."""
    figures = settings or SandboxSettings.asked(context.settings)
    store = Store()
    metrics = SandboxMetrics(context.metrics.registry, store)
    cluster = Cluster(context.api, metrics)
    controller = Controller(cluster, DenyAll(context.api, figures), store, figures, metrics, context.metrics)
    own = None
    with suppress(OSError):  # the network may come later than the operator
        own = own_address(context.api.server)
    proofs = Proofs(cluster, controller, context.metrics, [(own, context.settings.health_port)] if own else [])
    feed = Feed(cluster, controller, proofs, figures, context.settings.namespaces, context.leads)
    usage = Usage(cluster, store, metrics, figures, context.settings.namespaces, controller.queue.add)
    pulls = Pulls(cluster, store, context.settings.namespaces)
    context.run_forever("sandboxes", feed.run)
    context.run_forever("sandbox isolation", proofs.run)
    context.run_forever("sandbox usage", usage.run)
    context.run_forever("sandbox pulls", pulls.run)
