"""Which images of a list their registries have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .client import RegistryClient, RegistryUnavailable
from .reference import ParsedReference, ReferenceError, parse_reference

State = Literal["present", "missing", "denied", "undecided"]
STATES: dict[int, tuple[State, str]] = {
    200: ("present", ""),
    404: ("missing", "no such image"),
    401: ("denied", "no such repository, or one that needs a login"),
    403: ("denied", "the login must not pull it"),
}


@dataclass(frozen=True)
class Availability:
    """What is known of one image."""

    image: str
    state: State
    detail: str = ""


async def check_images(
    client: RegistryClient, images: Iterable[str], *, concurrency: int, report: Callable[[Availability], None]
) -> list[Availability]:
    """The state of each image, in their order, at most `concurrency` at a time; `report` gets each as it is known."""
    slots = asyncio.Semaphore(concurrency)

    async def one(image: str) -> Availability:
        async with slots:
            found = await _state(client, image)
        report(found)
        return found

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(image)) for image in images]
    return [task.result() for task in running]


async def _state(client: RegistryClient, image: str) -> Availability:
    try:
        reference: ParsedReference = parse_reference(image)
        status = await client.head(reference)
    except ReferenceError as error:
        return Availability(image, "missing", str(error))
    except RegistryUnavailable as error:
        return Availability(image, "undecided", str(error))
    state, detail = STATES.get(status, ("undecided", f"its registry answered {status}"))
    return Availability(image, state, detail)
