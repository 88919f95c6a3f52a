"""Many episodes in one process, with models that take their time: what the agent itself costs, bookkeeping included."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from swerl_agent.episode import BuiltinAgent, EpisodeRequest, Generation, HFTokenizer, Prompts
from swerl_agent.sandbox import Session
from swerl_agent.tasks import GroundTruth, Task
from swerl_api import AgentSpec

from tests.bench.context_bench import TOKENIZER
from tests.bench.exec_peers.clients import PodTargets, Swerl
from tests.bench.exec_peers.worker import processor_seconds
from tests.scripted_engine import Script, block

EPISODES = 256
TURNS = 10
THINKING = 5.0  # seconds of one answer
FILE_LINES = 400
PREPARE = (
    f"cd /testbed && git init -q && seq {FILE_LINES} >numbers && git add -A && git commit -qm base && "
    "echo end >>numbers"
)
LOOK = "sed -n '1,200p' numbers"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"
TASK = Task("bench__turns-1", "bench/turns", "0" * 40, "1", "Count.", "-", GroundTruth("", "", "", (), ()))


@dataclass(frozen=True)
class ConcurrentEpisodes:
    """What all of them came to."""

    cores: float  # processor seconds per second
    seconds: float
    endings: dict[str, int]  # exit status → episodes


class DelayedEngine(Script):
    """An engine whose answers take as long as a model's."""

    async def generate(self, input_ids: Sequence[int], **sampling: Any) -> Generation:
        await asyncio.sleep(THINKING)
        return await super().generate(input_ids, **sampling)


async def run(place: str) -> ConcurrentEpisodes:
    """Open the sessions (several in a Pod), run an episode in each, all at once."""
    ours = Swerl(PodTargets(**json.loads(place)))
    tokenizer = HFTokenizer(TOKENIZER)
    started, used = time.monotonic(), processor_seconds()
    await ours.open(EPISODES)
    sessions = ours.sessions
    prepared = await asyncio.gather(*(one.run(PREPARE, timeout=60) for one in sessions[: len(ours.place.pods)]))
    assert not any(result.exit_code for result in prepared), prepared
    endings = Counter(await asyncio.gather(*(_episode(session, tokenizer) for session in sessions)))
    seconds = time.monotonic() - started
    cores = (processor_seconds() - used) / seconds
    await ours.close()
    return ConcurrentEpisodes(cores, seconds, dict(endings))


async def _episode(session: Session, tokenizer: HFTokenizer) -> str:
    engine = DelayedEngine(tokenizer, [block(LOOK)] * (TURNS - 1) + [block(SUBMIT)])
    agent = BuiltinAgent(engine, tokenizer, Prompts.default(), AgentSpec())
    episode = await agent.run_episode(EpisodeRequest(TASK, group="bench", index=0, temperature=1.0), session)
    return episode.exit_status


async def run_concurrently(place: PodTargets) -> ConcurrentEpisodes:
    """The same in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.bench.many_episodes", json.dumps(asdict(place)), stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"the process of the episodes ended with {process.returncode}; see above")
    return ConcurrentEpisodes(**json.loads(out))


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(run(sys.argv[1])))))
