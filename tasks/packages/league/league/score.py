"""Scores of a season."""

from dataclasses import dataclass


@dataclass
class Score:
    wins: int
    losses: int = 0
    bonus: int = 0


def total(score):
    points = score.wins * 3
    if score.wins == 0:
        return score.bonus
    return points + score.bonus


def ratio(score):
    if not score.losses:
        return score.wins
    return score.wins / score.losses


def rest(score, limit):
    spare = limit - score.wins
    return max(0, spare)
