"""Batches and packing: weights sum to one, nothing is lost, every rank has the same amount of work."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
import torch
from swerl_api.algorithm import AlgorithmSpec, StepwiseSpec
from swerl_trainer.algorithm import (
    AlgorithmError,
    TrainingSample,
    advantage_metrics,
    demonstration_batch,
    minibatches,
    policy_batch,
)
from swerl_trainer.algorithm.packing import pack, schedule, unpack


def sample(length: int, *, reward: float = 1.0, group: str = "g", index: int = 0, step: int = 0) -> TrainingSample:
    mask = [0, 0] + [1] * (length - 2)
    return TrainingSample(list(range(length)), mask, [-1.0] * length, reward, True, group, index, "task", step)


def rollouts() -> list[TrainingSample]:
    """Two groups with signal, one trajectory in three steps, and one group without."""
    mixed = [sample(5 + 3 * i, reward=float(i % 2), group="a", index=i) for i in range(4)]
    steps = [sample(4 + step, reward=1.0, group="b", index=0, step=step) for step in range(3)]
    return [
        *mixed,
        *steps,
        sample(9, reward=0.0, group="b", index=1),
        sample(8, group="c"),
        sample(8, group="c", index=1),
    ]


def test_group_without_signal_counts_in_the_mean_with_advantage_zero() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    assert [s.trajectory[0] for s in batch.sequences] == [*"aaaa", *"bbbb", *"cc"]
    assert [bool(s.advantages.any()) for s in batch.sequences] == [True] * 8 + [False] * 2
    assert batch.trainable_tokens == sum(s.trainable_tokens for s in rollouts())


def test_rollout_ended_by_infrastructure_is_not_in_the_mean() -> None:
    infra_failed = TrainingSample(range(5), [0, 0, 1, 1, 1], [-1.0] * 5, 1.0, False, "c", 0, "task", 1)
    batch = policy_batch([*rollouts(), infra_failed], AlgorithmSpec())
    assert [s.trajectory for s in batch.sequences if s.trajectory[0] == "c"] == [("c", 1)]


def test_token_weights_are_equal_and_sum_to_one() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    weights = torch.cat([s.weights[s.mask] for s in batch.sequences])
    assert torch.allclose(weights, torch.full_like(weights, 1 / len(weights)))


def test_sequence_weights_give_every_sequence_the_same_share() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec(loss_aggregation="sequence"))
    assert [float(s.weights.sum()) for s in batch.sequences] == pytest.approx([1 / 10] * 10)
    assert all(len(s.weights[s.mask].unique()) == 1 for s in batch.sequences)


def test_constant_length_divides_the_sums_of_trajectories() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec(loss_aggregation="constant", length_constant=50))
    weights = torch.cat([s.weights[s.mask] for s in batch.sequences])
    assert weights.tolist() == pytest.approx([1 / (8 * 50)] * batch.trainable_tokens)


def test_trajectory_weights_give_every_trajectory_the_same_share() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec(loss_aggregation="trajectory"))
    share: defaultdict[tuple[str, int], float] = defaultdict(float)
    for s in batch.sequences:
        share[s.trajectory] += float(s.weights.sum())
    assert list(share.values()) == pytest.approx([1 / 8] * 8)


def test_figures_of_a_batch_are_means_over_trajectories_and_over_tokens() -> None:
    rewarded, penalised = sample(12, reward=1.0), sample(4, reward=-1.0, index=1)  # 10 and 2 trained tokens
    figures = advantage_metrics(policy_batch([rewarded, penalised], AlgorithmSpec(advantage_normalisation="none")))
    assert figures == pytest.approx({"rewards": 0.0, "advantages": 8 / 12, "returns": 8 / 12})
    assert advantage_metrics(policy_batch([], AlgorithmSpec(advantage_normalisation="none"))) == {}


def test_no_group_with_signal_makes_an_empty_batch() -> None:
    assert len(policy_batch([sample(8), sample(8, index=1)], AlgorithmSpec())) == 0


def test_rollout_without_log_probabilities_cannot_be_trained() -> None:
    without_logprobs = TrainingSample([1, 2, 3], [0, 1, 1], (), 1.0, True, "g", 0, "task")
    with pytest.raises(AlgorithmError, match="log-probabilities"):
        policy_batch([without_logprobs, sample(5, reward=0.0, index=1)], AlgorithmSpec())


def test_text_that_was_encoded_again_is_trained_without_log_probabilities() -> None:
    without_logprobs = [TrainingSample([1, 2, 3], [0, 1, 1], (), float(i), True, "g", i, "task") for i in range(2)]
    batch = policy_batch(without_logprobs, AlgorithmSpec(encoding="text"))
    assert [sequence.rollout_logprobs for sequence in batch.sequences] == [None, None]
    assert pack(batch, [0, 1]).rollout is None


def test_demonstrations_have_advantage_one_and_need_no_group() -> None:
    batch = demonstration_batch([TrainingSample([1, 2, 3], [0, 0, 1], (), 0.0, True, "", 0, "task")])
    assert batch.sequences[0].advantages.tolist() == [0.0, 0.0, 1.0]


def test_first_token_is_never_trained() -> None:
    batch = demonstration_batch([TrainingSample([1, 2, 3], [1, 1, 1], (), 0.0, True, "", 0, "task")])
    assert batch.sequences[0].mask.tolist() == [False, True, True]


def test_minibatches_split_by_trajectory_and_reweigh_each_part() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec(loss_aggregation="trajectory"))
    parts = minibatches(batch, AlgorithmSpec(minibatches=3, loss_aggregation="trajectory"))
    assert [float(sum(s.weights.sum() for s in p.sequences)) for p in parts] == pytest.approx([1.0] * 3)
    trajectories = [{s.trajectory for s in p.sequences} for p in parts]
    assert not trajectories[0] & trajectories[1] and len(trajectories[0] | trajectories[1] | trajectories[2]) == 8


def test_there_are_never_more_minibatches_than_trajectories() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    assert len(minibatches(batch, AlgorithmSpec(minibatches=50))) == 8


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_schedule_is_complete_and_within_budget(ranks: int) -> None:
    rng = random.Random(ranks)
    lengths = [rng.randint(1, 90) for _ in range(57)] + [250]
    plan = schedule(lengths, budget=200, ranks=ranks)
    assert len(plan) == ranks and len({len(of_rank) for of_rank in plan}) == 1
    bins = [members for of_rank in plan for members in of_rank]
    assert sorted(i for members in bins for i in members) == list(range(len(lengths)))
    assert all(len(m) == 1 or sum(lengths[i] for i in m) <= 200 for m in bins)


@pytest.mark.parametrize("count", [517, 3])
def test_any_number_of_samples_is_shared_out_whole_over_four_ranks(count: int) -> None:
    steps = [sample(4 + number % 7, reward=float(number % 2), index=number) for number in range(count)]
    batch = policy_batch(steps, AlgorithmSpec())
    plan = schedule([len(sequence) for sequence in batch.sequences], budget=64, ranks=4)
    assert len({len(of_rank) for of_rank in plan}) == 1
    assert sorted(position for of_rank in plan for members in of_rank for position in members) == list(range(count))
    assert float(sum(sequence.weights.sum() for sequence in batch.sequences)) == pytest.approx(1.0, abs=1e-4)


def test_budget_below_every_sequence_packs_each_alone() -> None:
    assert schedule([9, 9, 9], budget=1, ranks=1) == [[[0], [1], [2]]]


def test_ranks_share_the_cost_of_attention_not_only_tokens() -> None:
    """One sequence of 1000 tokens costs as much as many short ones of more tokens together."""
    lengths = [1000] + [50] * 60
    plan = schedule(lengths, budget=5000, ranks=2, attention=1 / 250)

    def cost(of_rank: list[list[int]], attention: float) -> float:
        return sum(lengths[i] * (1 + attention * lengths[i] / 2) for members in of_rank for i in members)

    costs = [cost(of_rank, 1 / 250) for of_rank in plan]
    assert max(costs) / min(costs) < 1.03
    tokens = [cost(of_rank, 0.0) for of_rank in plan]
    assert max(tokens) / min(tokens) > 1.3


def test_interleaved_pipeline_gets_whole_rounds_of_micro_batches() -> None:
    assert schedule([9] * 5, budget=9, ranks=1, multiple=4) == [[[0], [1], [2], [3], [4], [], [], []]]
    plan = schedule([9] * 5, budget=9, ranks=2, multiple=2)
    assert [len(of_rank) for of_rank in plan] == [4, 4]


def test_fewer_sequences_than_ranks_leave_empty_micro_batches() -> None:
    assert schedule([10], budget=100, ranks=3) == [[[0]], [[]], [[]]]


def test_packed_micro_batch_predicts_each_token_from_the_one_before() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    packed = pack(batch, [2, 0, 5], multiple=4)
    assert all(b % 4 == 0 for b in packed.boundaries.tolist()) and len(packed.tokens) == packed.boundaries[-1]
    expected = torch.cat([batch.sequences[i].tokens[batch.sequences[i].mask] for i in (2, 0, 5)])
    assert packed.labels[packed.positions].tolist() == expected.tolist()
    assert (packed.position_ids[packed.boundaries[:-1].long()] == 0).all()


def test_unpacking_restores_every_tokens_place() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    packed = pack(batch, [3, 1])
    restored = unpack(packed.weights, packed, batch)
    assert all(torch.equal(restored[i], batch.sequences[i].weights) for i in (3, 1))


def test_padding_micro_batch_has_no_trainable_token() -> None:
    batch = policy_batch(rollouts(), AlgorithmSpec())
    packed = pack(batch, [], multiple=8)
    assert (len(packed.tokens), len(packed.positions), packed.sequences) == (8, 0, 1)
    assert packed.rollout is not None and packed.rollout.shape == (0,), "it lacks what the other micro-batches have"
    assert packed.reference is None


def test_stepwise_advantages_are_zero_outside_their_answers() -> None:
    def judged(index: int, rewards: dict[int, float]) -> TrainingSample:
        answers = [(0, 2, 4), (1, 5, 7)]
        mask = [0, 0, 1, 1, 0, 1, 1]
        return TrainingSample(
            range(7), mask, [-1.0] * 7, 1.0, True, "g", index, "t", answers=answers, step_rewards=rewards
        )

    samples = [judged(0, {0: 2.0, 1: 1.0}), judged(1, {0: 0.0, 1: 1.0})]
    batch = policy_batch(samples, AlgorithmSpec(advantage_normalisation="none", stepwise=StepwiseSpec(enabled=True)))
    first, second = batch.sequences
    assert first.advantages.tolist() == [0, 0, 1, 1, 0, 0, 0]
    assert second.advantages.tolist() == [0, 0, -1, -1, 0, 0, 0]
    assert first.mask.tolist() == [False, False, True, True, False, True, True]
    assert float(first.weights.sum() + second.weights.sum()) == pytest.approx(1.0)
