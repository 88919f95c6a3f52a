"""When episodes begin, and Pods that nobody waits for, where both share processors."""

from __future__ import annotations

import asyncio

import pytest
from swerl_trainer.rollout import churn
from swerl_trainer.rollout.churn import Churn


def idle() -> Churn:
    return Churn("idle", lambda: 0)


async def act(rules: Churn, until: asyncio.Event) -> None:
    """An episode."""
    async with rules.acting():
        await until.wait()


async def begun(rules: Churn, *, within: float = 0.05) -> bool:
    """Whether an episode with its sandbox begins so soon."""
    over = asyncio.Event()
    over.set()
    episode = asyncio.create_task(act(rules, over))
    await asyncio.wait([episode], timeout=within)
    episode.cancel()
    await asyncio.gather(episode, return_exceptions=True)
    return not episode.cancelled()


async def test_an_episode_begins_when_the_others_have_their_sandboxes_too() -> None:
    rules, over = idle(), asyncio.Event()
    over.set()
    with rules.claiming():
        with rules.claiming():
            episode = asyncio.create_task(act(rules, over))
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.02)
        assert not episode.done()
    await asyncio.wait_for(episode, 1)


async def test_episodes_that_ask_at_about_the_same_time_begin_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "SETTLE", 0.1)
    rules, over = idle(), asyncio.Event()
    over.set()
    first = asyncio.create_task(act(rules, over))
    await asyncio.sleep(0.02)
    with rules.claiming():
        await asyncio.sleep(0.2)
        assert not first.done()
    await asyncio.wait_for(first, 1)


async def test_an_episode_begins_when_none_of_the_others_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "PATIENCE", 0.1)
    with (rules := idle()).claiming():
        assert not await begun(rules)
        assert await begun(rules, within=1)


async def test_an_episode_waits_only_so_long_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "LONGEST", 0.3)
    rules = idle()

    async def others() -> None:
        while True:
            with rules.claiming():
                await asyncio.sleep(0.02)

    with rules.claiming():
        task = asyncio.create_task(others())
        assert not await begun(rules, within=0.1)
        assert await begun(rules, within=1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_gradings_wait_until_no_episode_acts() -> None:
    rules, over = idle(), asyncio.Event()
    await asyncio.wait_for(rules.at_rest(), 1)
    with rules.claiming():
        episode = asyncio.create_task(act(rules, over))
        await asyncio.sleep(0.02)
        grading = asyncio.create_task(rules.at_rest())
        await asyncio.sleep(0.02)
        assert not grading.done(), "the episode is about to act"
    await asyncio.sleep(0.02)
    assert not grading.done()
    over.set()
    await asyncio.wait_for(grading, 1)
    await episode


async def test_gradings_wait_for_the_sandboxes_that_are_made_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "ASKED_WITHIN", 0.05)
    pending = [0]
    grading = asyncio.create_task(Churn("idle", lambda: pending[-1]).at_rest())
    await asyncio.sleep(0.02)
    pending.append(2)  # asked for when the last episode had acted
    await asyncio.sleep(0.2)
    assert not grading.done()
    pending.append(0)
    await asyncio.wait_for(grading, 1)


async def test_gradings_begin_when_no_sandbox_becomes_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(churn, "ASKED_WITHIN", 0.05)
    monkeypatch.setattr(churn, "PATIENCE", 0.3)
    grading = asyncio.create_task(Churn("idle", lambda: 2).at_rest())
    await asyncio.sleep(0.2)
    assert not grading.done()
    await asyncio.wait_for(grading, 1)


async def test_nothing_waits_where_pods_may_always_start() -> None:
    rules, over = Churn("always", lambda: 0), asyncio.Event()
    with rules.claiming():
        assert await begun(rules)
        episode = asyncio.create_task(act(rules, over))
        await asyncio.sleep(0.02)
        await asyncio.wait_for(rules.at_rest(), 1)
    over.set()
    await episode
