"""One graded segment of tokens, as the rollout side hands it over.

Guarantees: `tokens`, `loss_mask` and (where present) `logprobs` have the same length and describe the same tokens; the
sampled tokens are the trained tokens, nothing is encoded twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from swerl_trainer.algorithm.errors import AlgorithmError


@dataclass(frozen=True)
class TrainingSample:
    """A trajectory, or one step of one when several samples share `(group, index)`.

    All per-token fields are token-aligned: entry `t` belongs to `tokens[t]`.
    """

    tokens: Sequence[int]
    loss_mask: Sequence[int]  # 1 at tokens that the policy sampled (for SFT: should sample), else 0
    logprobs: Sequence[float]  # log-probability the engine sampled each token with, 0.0 elsewhere; () when unknown
    reward: float  # outcome of the whole trajectory
    valid: bool  # False when infrastructure, not the policy, ended it
    group: str  # the prompt's rollouts share it
    index: int  # rollout within the group
    instance_id: str
    step: int = 0  # position within the trajectory when it was cut into several samples
    answers: Sequence[tuple[int, int, int]] = ()  # (answer of the trajectory, first token, end)
    step_rewards: Mapping[int, float] = field(default_factory=dict)  # by answer; absent where no judge scored it

    def __post_init__(self) -> None:
        if len(self.loss_mask) != len(self.tokens):
            raise AlgorithmError(f"{self.name}: {len(self.tokens)} tokens but {len(self.loss_mask)} mask entries")
        if self.logprobs and len(self.logprobs) != len(self.tokens):
            raise AlgorithmError(f"{self.name}: {len(self.tokens)} tokens but {len(self.logprobs)} log-probabilities")

    @property
    def name(self) -> str:
        """The name of this sample in error messages."""
        return f"sample {self.group}/{self.index}.{self.step} ({self.instance_id})"

    @property
    def trajectory(self) -> tuple[str, int]:
        """Samples with the same value belong to one trajectory and count as one rollout."""
        return (self.group, self.index)

    @property
    def trainable_tokens(self) -> int:
        """Number of tokens in the loss; the first token of a sequence is never predicted."""
        return sum(1 for m in self.loss_mask[1:] if m)
