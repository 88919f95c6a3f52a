"""Blocking calls for programs without an event loop, such as notebooks: those of `Sandbox`, each run to its end.

    from swerl_agent.sandbox.blocking import BlockingSandbox

    with BlockingSandbox.claim("python:3.12", count=4) as group:
        result = group[0].run("pytest -q", timeout=60)

Guarantee: each claim has a thread of its own, so the calls also work from any thread and inside a running event loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from ..event_loop import new_event_loop
from .claim import Claim, ClaimOptions, Sandbox

P = ParamSpec("P")
T = TypeVar("T")


class LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sandboxes", daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`, which an interrupt cancels; raises RuntimeError after `stop`."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the claim has ended and its sandboxes are gone; use them inside its `with` block")
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
    method: Callable[Concatenate[Sandbox, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[BlockingSandbox, P], T]:
    def call(self: BlockingSandbox, /, *arguments: P.args, **options: P.kwargs) -> T:
        return self._loop.wait(method(self._sandbox, *arguments, **options))

    call.__doc__ = method.__doc__
    return call


class BlockingSandbox:
    """One claimed sandbox."""

    def __init__(self, sandbox: Sandbox, loop: LoopThread) -> None:
        self._sandbox, self._loop = sandbox, loop

    @staticmethod
    def claim(image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> BlockingClaim:
        """`count` sandboxes of `image`, as a context manager; `ClaimOptions` documents the options."""
        return BlockingClaim(image, count, **options)

    @property
    def name(self) -> str:
        """Name of its Pod."""
        return self._sandbox.name

    run = _blocking(Sandbox.run)
    read = _blocking(Sandbox.read)
    write = _blocking(Sandbox.write)
    upload = _blocking(Sandbox.upload)
    download = _blocking(Sandbox.download)
    release = _blocking(Sandbox.release)


class BlockingClaim:
    """A claim as an ordinary context manager; the arguments are those of `Claim` without `client`."""

    def __init__(self, image: str, count: int = 1, **options: Unpack[ClaimOptions]) -> None:
        if options.get("client") is not None:
            raise TypeError(
                "client: an open client belongs to the event loop that opened it, and a blocking claim has its own; "
                "pass `kubeconfig` or nothing"
            )
        self._claim = Claim(image, count, **options)

    @property
    def taken_over(self) -> bool:
        """Whether the sandboxes were taken over from a program that ended."""
        return self._claim.taken_over

    def __enter__(self) -> Sequence[BlockingSandbox]:
        self._loop = LoopThread()
        try:
            return [BlockingSandbox(one, self._loop) for one in self._loop.wait(self._claim.__aenter__())]
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
