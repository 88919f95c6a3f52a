"""Sandboxes for programs without an event loop, notebooks among them: the calls of `sandbox.Sandbox`, each awaited.

    from swerl_agent.sandbox.blocking import Sandbox

    with Sandbox.claim("python:3.12", count=4) as group:
        result = group[0].run("pytest -q", timeout=60)

Guarantee: one thread of its own serves a claim, so this works inside a running event loop, too, and from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from ..event_loop import new_event_loop
from .claim import Claim as AsyncClaim
from .claim import ClaimOptions
from .claim import Sandbox as AsyncSandbox

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandboxes", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; an interrupt meanwhile cancels it. Raises RuntimeError once the loop was stopped."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the claim has ended and its sandboxes are gone: use them inside its `with`")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, for a caller in another event loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _blocking(
    method: Callable[Concatenate[AsyncSandbox, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Sandbox, P], T]:
    def call(self: Sandbox, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._loop.wait(method(self._sandbox, *arguments, **options))

    call.__doc__ = method.__doc__
    return call


class Sandbox:
    """One claimed sandbox."""

    def __init__(self, sandbox: AsyncSandbox, loop: LoopThread) -> None:
        self._sandbox, self._loop = sandbox, loop

    @staticmethod
    def claim(image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> Claim:
        """`count` sandboxes of `image`, as a context; the options are explained in `ClaimOptions`."""
        return Claim(image, count, **options)

    @property
    def name(self) -> str:
        """Name of its Pod."""
        return self._sandbox.name

    run = _blocking(AsyncSandbox.run)
    read = _blocking(AsyncSandbox.read)
    write = _blocking(AsyncSandbox.write)
    upload = _blocking(AsyncSandbox.upload)
    download = _blocking(AsyncSandbox.download)
    release = _blocking(AsyncSandbox.release)


class Claim:
    """A claim as an ordinary context; the arguments are those of `claim.Claim` without `client`."""

    def __init__(self, image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> None:
        if options.get("client") is not None:
            raise TypeError(
                "client: an open client belongs to the event loop it was opened in, and a blocking claim has its own; "
                "give `kubeconfig` or nothing"
            )
        self._claim = AsyncClaim(image, count, **options)

    @property
    def taken_over(self) -> bool:
        """Whether the sandboxes are those of a program that died."""
        return self._claim.taken_over

    def __enter__(self) -> Sequence[Sandbox]:
        self._loop = LoopThread()
        try:
            return [Sandbox(one, self._loop) for one in self._loop.wait(self._claim.__aenter__())]
        except BaseException:
            self._loop.stop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._loop.wait(self._claim.__aexit__(kind, error, trace))
        finally:
            self._loop.stop()
