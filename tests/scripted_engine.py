"""An engine whose answers a test writes down."""

from __future__ import annotations

from collections.abc import Sequence

from swerl_agent.episode import Generation, HFTokenizer


def block(command: str) -> str:
    return f"THOUGHT: next.\n\n```bash\n{command}\n```"


class Script:
    """An engine that gives the scripted answers, as tokens; an exception in the script is raised."""

    def __init__(self, tokenizer: HFTokenizer, answers: Sequence[str | Exception]) -> None:
        self.tokenizer, self.answers = tokenizer, list(answers)
        self.read: list[str] = []
        self.limits: list[int] = []
        self.keys: set[str] = set()

    async def generate(
        self,
        input_ids: Sequence[int],
        *,
        max_new_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        routing_key: str,
    ) -> Generation:
        self.read.append(self.tokenizer.decode(input_ids))
        self.limits.append(max_new_tokens)
        self.keys.add(routing_key)
        answer = self.answers.pop(0) if self.answers else block("true")
        if isinstance(answer, Exception):
            raise answer
        ids = [*self.tokenizer.encode(answer), self.tokenizer.turn_end_id]
        reason = "stop" if len(ids) <= max_new_tokens else "length"
        ids = ids[:max_new_tokens]
        return Generation(ids, [-0.25] * len(ids), reason, [("7", 0, len(ids))])
