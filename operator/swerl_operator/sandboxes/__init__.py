"""SweSandboxes: groups of single-use Pods, admitted as a unit, started at the nodes' pace, deleted with their Lease.

Reading order:

1. `parsed`: the objects
2. `store`: the known state of a group
3. `decide`: the actions
4. `status`: what to write
5. `admission` and `start_window`: which groups may proceed
6. `reconciler` and `informer`: the loop
7. `api`: requests

Guarantee: SweSandboxes and Pods never get an annotation, finalizer or progress of kopf: it has no handler for them,
`SandboxInformer` watches both.
"""

from __future__ import annotations

from contextlib import suppress

import kopf
from swerl_api.isolation import own_address

from ..context import OperatorContext
from .api import SandboxApi
from .image_pulls import PullWatcher
from .informer import SandboxInformer
from .isolation_check import IsolationChecker
from .metrics import SandboxMetrics
from .network_policy import SandboxPolicies
from .reconciler import SandboxReconciler
from .settings import SandboxSettings
from .store import GroupStore
from .usage import UsageSampler


def register(registry: kopf.OperatorRegistry, context: OperatorContext) -> None:
    """Add the background loops of SweSandboxes."""
    settings, namespaces = SandboxSettings.from_options(context.settings), context.settings.namespaces
    store = GroupStore()
    metrics = SandboxMetrics(context.metrics.registry, store)
    api = SandboxApi(context.api, metrics)
    policies = SandboxPolicies(context.api, settings)
    reconciler = SandboxReconciler(api, policies, store, settings, metrics, context.metrics)
    own = None
    with suppress(OSError):  # the network may come later than the operator
        own = own_address(context.api.server)
    own_targets = [(own, context.settings.health_port)] if own else []
    checker = IsolationChecker(api, reconciler, settings, context.metrics, own_targets)
    informer = SandboxInformer(api, reconciler, checker, settings, namespaces, context.is_leader)
    usage = UsageSampler(api, store, metrics, settings, namespaces, reconciler.queue.add)
    pulls = PullWatcher(api, store, settings, namespaces)
    context.run_forever("sandboxes", informer.run)
    context.run_forever("sandbox isolation", checker.run)
    context.run_forever("sandbox usage", usage.run)
    context.run_forever("sandbox pulls", pulls.run)
