"""What keeping the context costs an episode: milliseconds of one step in a conversation of 200 turns and 32k tokens.

A step is all that the agent does with tokens between two generations: record the answer, encode the observation, and
leave turns out where they do not fit. The figure is the slowest step of the conversation, each step being the fastest
of several runs, so that other work on the machine does not count; the window is cut many times on the way.

    make bench-context
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

from swerl_agent.episode import Generation, HFTokenizer, max_input_tokens
from swerl_agent.episode.transcript import Transcript
from swerl_api import AgentSpec

from tests.bench.figures import Figure, conclude

TOKENIZER = Path(__file__).parents[2] / "tiny_model" / "model"
TURNS = 200
TOKENS = 32_000
WINDOWS = (TOKENS + 4_096, TOKENS // 2)  # everything fits; half of it does
RUNS = 5
GOAL = 5.0  # milliseconds
MESSAGES = [{"role": "system", "content": "You fix code."}, {"role": "user", "content": "The answer is 42. " * 20}]
ANSWER = "THOUGHT: look further.\n\n```bash\nsed -n '1,20p' store/stock.py\n```"


def figures() -> list[Figure]:
    """The slowest step with a window that holds everything, and with one that is cut many times."""
    tokenizer = HFTokenizer(TOKENIZER)
    answer = [*tokenizer.encode(ANSWER), tokenizer.turn_end_id]
    observation = _text_of(tokenizer, TOKENS // TURNS - len(answer))
    found = []
    for window in WINDOWS:
        runs = [
            _steps(tokenizer, AgentSpec(context_tokens=window, max_tokens_per_turn=4_096), answer, observation)
            for _ in range(RUNS)
        ]
        slowest = max(min(times) for times in zip(*runs, strict=True))
        found.append(Figure(f"context_step_slowest_{window}_window_ms", slowest * 1e3, GOAL))
    return found


def _steps(tokenizer: HFTokenizer, spec: AgentSpec, answer: list[int], observation: str) -> list[float]:
    """Seconds of each step."""
    transcript = Transcript(tokenizer, MESSAGES, spec)
    generation = Generation(answer, [-0.5] * len(answer), "stop", [("1", 0, len(answer))])
    times = []
    gc.collect()
    for _ in range(TURNS):
        began = time.perf_counter()
        transcript.answer(generation)
        transcript.observe(observation)
        transcript.input_ids()
        times.append(time.perf_counter() - began)
    if max_input_tokens(spec) < TOKENS and len(transcript.segments) < 2:
        raise RuntimeError("the conversation never left its window: nothing was measured")
    return times


def _text_of(tokenizer: HFTokenizer, tokens: int) -> str:
    """An observation of about `tokens` tokens."""
    line = "    return self.stock.get(name, 0)  # nothing of it is left\n"
    text = line
    while len(tokenizer.delta(text)) < tokens:
        text += line
    return text


if __name__ == "__main__":
    sys.exit(conclude(figures()))
