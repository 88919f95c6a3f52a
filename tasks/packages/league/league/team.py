"""Teams and their players."""

from dataclasses import dataclass


@dataclass
class Player:
    name: str
    skill: int
    age: int = 20


def lead(players):
    if not players:
        return []
    return sorted(players, key=lambda player: player.skill, reverse=True)


def weak(players):
    if not players:
        return 0
    return min(player.skill for player in players)


def senior(players, age):
    group = []
    for player in players:
        if player.age >= age:
            group.append(player)
    return group
