"""The NetworkPolicy that cuts a Grader's Pods off the network: made before the first, removed after the last."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from swerl_kube import WRITE_RETRY, Conflict, Forbidden, KubeClient, KubeError, NotFound, WriteRetry, retry_write

POLICIES = ("networking.k8s.io/v1", "networkpolicies")


class GradingError(Exception):
    """Grading cannot work here at all: no permission, unknown parser. The message says what to change."""


class NetworkPolicy:
    """`policy` in `namespace`."""

    def __init__(self, client: KubeClient, namespace: str, policy: Mapping[str, Any]) -> None:
        self._client, self._namespace, self._policy = client, namespace, dict(policy)
        self._name = str(policy["metadata"]["name"])

    async def close_off(self, retry: WriteRetry = WRITE_RETRY) -> None:
        """Make the policy, through an outage of the API server; raises GradingError where that is impossible."""
        try:
            await retry_write(lambda: self._client.create(POLICIES[1], self._policy, namespace=self._namespace), retry)
        except Conflict:
            pass
        except NotFound as error:
            raise GradingError(f"namespace {self._namespace} does not exist; create it or choose another") from error
        except Forbidden as error:
            raise GradingError(
                f"cannot create NetworkPolicy {self._namespace}/{self._name}, without which patches would run with"
                f" network: {error}; let this account create and delete networkpolicies there"
            ) from error
        except KubeError as error:
            raise GradingError(f"cannot create NetworkPolicy {self._namespace}/{self._name}: {error}") from error

    async def remove(self) -> None:
        """Delete the policy; a failure leaves one that belongs to the job and selects nothing any more."""
        with suppress(KubeError):
            await self._client.delete(*POLICIES, self._namespace, self._name)
