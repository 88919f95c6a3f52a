"""Pre-training of the tiny model on generated episodes, until it copies.

Guarantees: the same seed gives the same data in the same order; training stops by token count, not by the clock; the
checkpoint holds shape, weights and tokens seen.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from tiny_model.defects import random_defect
from tiny_model.episodes import Noise, demonstration, encode
from tiny_model.network import Shape, TinyQwen3
from tiny_model.validation import Encoder, measure
from tiny_model.vocabulary import build_tokenizer, padded_size

MIN_COPY_PROBABILITY = 0.95  # chance that every copied part of an episode is right, at temperature 1


@dataclass(frozen=True)
class PretrainSettings:
    """Settings of a run: `short` of the episodes end after the first turn until `curriculum` of the tokens are seen."""

    tokens: int = 9_000_000
    batch: int = 24
    lr: float = 4e-3
    warmup: int = 40
    decay_from: float = 0.6
    curriculum_share: float = 0.03
    short_share: float = 0.6
    context_weight: float = 0.2  # loss weight of text the agent did not write, during the curriculum
    later_context_weight: float = 0.03
    weight_decay: float = 0.02
    seed: int = 1


TokenRow = tuple[list[int], list[bool]]


def _encoder(tokenizer: Tokenizer) -> Encoder:
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def batches(settings: PretrainSettings, encoder: Encoder, progress: list[float]) -> Iterator[list[TokenRow]]:
    """Endless batches of similar length; `progress[0]` is the share of the tokens seen so far."""
    rng = random.Random(settings.seed)
    noise = Noise()
    while True:
        pool: list[TokenRow] = []
        for _ in range(settings.batch * 8):
            segments = demonstration(random_defect(rng), rng, noise)
            if progress[0] < settings.curriculum_share and rng.random() < settings.short_share:
                segments = segments[:2]
            pool.append(encode(segments, encoder))
        pool.sort(key=lambda row: len(row[0]))
        ordered = [pool[start : start + settings.batch] for start in range(0, len(pool), settings.batch)]
        rng.shuffle(ordered)
        yield from ordered


def batch_loss(model: TinyQwen3, batch: list[TokenRow], context_weight: float) -> tuple[Tensor, float, int]:
    """(weighted loss, mean loss on the agent's tokens, token count) of a batch."""
    length = max(len(ids) for ids, _ in batch)
    ids = torch.zeros(len(batch), length, dtype=torch.long)
    weight = torch.zeros(len(batch), length)
    for index, (row, sampled) in enumerate(batch):
        ids[index, : len(row)] = torch.tensor(row)
        weight[index, : len(row)] = torch.where(torch.tensor(sampled), 1.0, context_weight)
    with torch.autocast("cpu", torch.bfloat16):
        states = model.hidden(ids[:, :-1])
        chosen = weight[:, 1:] > 0
        logits = model.logits(states[chosen])
    losses = functional.cross_entropy(logits.float(), ids[:, 1:][chosen], reduction="none")
    weights = weight[:, 1:][chosen]
    agent_loss = losses[weights == 1.0].mean().item()
    return (losses * weights).sum() / weights.sum(), agent_loss, sum(len(row) for row, _ in batch)


def make_optimizers(model: TinyQwen3, settings: PretrainSettings) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices (Jordan et al. 2024), with which copying sets in sooner; AdamW for the rest."""
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "layers" in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "layers" not in n]
    muon = torch.optim.Muon(
        matrices, lr=settings.lr, weight_decay=settings.weight_decay, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(others, lr=settings.lr, betas=(0.9, 0.95), weight_decay=0.0)]


def _learning_rate(settings: PretrainSettings, step: int, progress: float) -> float:
    decay = 1.0 if progress < settings.decay_from else max(0.03, (1 - progress) / (1 - settings.decay_from))
    return settings.lr * min(1.0, (step + 1) / settings.warmup) * decay


class PretrainRun:
    """One pre-training run; `folder` gets tokenizer.json, checkpoint.pt and log.jsonl."""

    def __init__(self, settings: PretrainSettings, folder: Path) -> None:
        torch.manual_seed(settings.seed)
        folder.mkdir(parents=True, exist_ok=True)
        self.plan, self.folder = settings, folder
        tokenizer = build_tokenizer()
        tokenizer.save(str(folder / "tokenizer.json"))
        self.encoder = _encoder(tokenizer)
        self.model = TinyQwen3(Shape(vocab_size=padded_size(tokenizer)))
        self.optimizers = make_optimizers(self.model, settings)
        self.progress, self.tokens_seen = [0.0], 0
        self.started = time.time()

    def step(self, number: int, batch: list[TokenRow]) -> float:
        """One update; returns the loss on the agent's tokens."""
        early = self.progress[0] < self.plan.curriculum_share
        loss, agent_loss, count = batch_loss(
            self.model, batch, self.plan.context_weight if early else self.plan.later_context_weight
        )
        for optimizer in self.optimizers:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = _learning_rate(self.plan, number, self.progress[0])
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.tokens_seen += count
        self.progress[0] = self.tokens_seen / self.plan.tokens
        return agent_loss

    def save(self) -> None:
        """Write the checkpoint."""
        checkpoint = {"shape": asdict(self.model.shape), "weights": self.model.state_dict()}
        torch.save(checkpoint | {"tokens": self.tokens_seen, "plan": asdict(self.plan)}, self.folder / "checkpoint.pt")

    def report(self, entry: dict[str, object]) -> None:
        """Print one line of progress and keep it in the log."""
        totals = {
            "tokens": self.tokens_seen,
            "seconds": round(time.time() - self.started),
            "cpu": round(time.process_time()),
        }
        line = json.dumps(totals | entry)
        with (self.folder / "log.jsonl").open("a") as log:
            log.write(line + "\n")
        print(line, flush=True)

    def validate(self, count: int) -> float:
        """Measure and report over `count` modules; returns the probability that everything is copied."""
        fields, kinds = measure(self.model, self.encoder, count=count)
        rounded = {name: round(value, 3) for name, value in fields.items()}
        self.report({"validation": rounded, "right": {kind: round(value, 2) for kind, value in kinds.items()}})
        return fields["copy"]

    def train(self, *, report_every: int, validate_every: int, validation_modules: int) -> float:
        """Train to the token count of the settings; returns the copy probability at the end, over so many modules."""
        losses: list[float] = []
        for number, batch in enumerate(batches(self.plan, self.encoder, self.progress)):
            losses.append(self.step(number, batch))
            if number % report_every == 0:
                self.report({"step": number, "loss": round(sum(losses) / len(losses), 4)})
                losses.clear()
            if (number + 1) % validate_every == 0:
                self.validate(60)
                self.save()
            if self.progress[0] >= 1:
                break
        self.save()
        return self.validate(validation_modules)


def main() -> int:
    parser = argparse.ArgumentParser(description="Pre-train the tiny base model; exit 1 when it does not copy.")
    parser.add_argument("out", type=Path, help="folder for tokenizer, checkpoint and log")
    parser.add_argument("--tokens", type=int, default=PretrainSettings.tokens)
    parser.add_argument("--seed", type=int, default=PretrainSettings.seed)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--validation-modules", type=int, default=400, help="unseen modules of the last validation")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run = PretrainRun(PretrainSettings(tokens=arguments.tokens, seed=arguments.seed), arguments.out)
    copies = run.train(report_every=25, validate_every=200, validation_modules=arguments.validation_modules)
    if copies < MIN_COPY_PROBABILITY:
        print(
            f"the model copies in {copies:.3f} of the episodes, needed are {MIN_COPY_PROBABILITY}; train on more tokens"
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
