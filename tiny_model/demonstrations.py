"""`python -m tiny_model.demonstrations tasks/demonstrations.jsonl`: right demonstrations for supervised steps.

Guarantees: the same file every time; the modules are generated, no bundled task is among them.
"""

from __future__ import annotations

import json
import random
import re
import sys
from pathlib import Path

from tiny_model.defects import random_defect
from tiny_model.episodes import Noise, demonstration

COUNT = 48
SEED = 23
TURN = re.compile(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", re.DOTALL)


def conversation(rng: random.Random) -> list[dict[str, str]]:
    """One right episode as chat messages."""
    segments = demonstration(random_defect(rng), rng, Noise(right=1.0, unchanged=0.0))
    text = "".join(segment.text for segment in segments)
    return [{"role": role, "content": content} for role, content in TURN.findall(text)]


def main() -> None:
    rng = random.Random(SEED)
    rows = [json.dumps({"messages": conversation(rng)}) for _ in range(COUNT)]
    Path(sys.argv[1]).write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
