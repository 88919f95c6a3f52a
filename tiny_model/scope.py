"""What random code is made of: words, names, values, conditions, and statements that fill a function.

Guarantees: every name is drawn at random from `words.txt`, so no module repeats a bundled task; no filling statement
could carry a defect of the scope's kind.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

WORDS = Path(__file__).with_name("words.txt").read_text().split()
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 24, 25, 30, 40, 50, 60, 90, 100, 365)


@dataclass(frozen=True)
class Defect:
    """A module with one defect; replacing `bad` by `good` (once) repairs it."""

    kind: str
    path: str
    function: str
    source: str
    bad: str
    good: str


@dataclass(frozen=True)
class Scope:
    """What a statement may use: a source of chance, names in scope, and the kind of defect to keep clear of."""

    rng: random.Random
    names: list[str]
    kind: str

    def name(self) -> str:
        return self.rng.choice(self.names)

    def attribute(self) -> str:
        return f"{self.name()}.{variable(self.rng)}"

    def number(self) -> str:
        return str(self.rng.choice(NUMBERS))

    def atom(self) -> str:
        draw = self.rng.random()
        if draw < 0.68:
            return self.name()
        if draw < 0.8:
            return self.attribute()
        return self.number() if draw < 0.9 else f"len({self.name()})"

    def two_atoms(self) -> tuple[str, str]:
        left = self.name() if self.rng.random() < 0.75 else self.attribute()
        while (right := self.atom()) == left:
            pass
        return left, right

    def comparison(self) -> str:
        left, right = self.two_atoms()
        allowed = ["==", "!="] if self.kind == "limit" else ["<", "<=", ">", ">=", "==", "<", ">="]
        return f"{left} {self.rng.choice(allowed)} {right}"

    def arithmetic(self) -> str:
        blocked = {"sign": "+-", "fraction": "/", "offset": "+-"}.get(self.kind, "")
        operators = [o for o in ("+", "-", "*", "/", "//", "+", "-", "*") if o[0] not in blocked]
        left, right = self.two_atoms()
        return f"{left} {self.rng.choice(operators)} {right}"

    def value(self) -> str:
        return self.atom() if self.rng.random() < 0.6 else self.arithmetic()

    def condition(self) -> str:
        """A condition; a bare name only where the kind is not negation."""
        if self.kind == "negation" or self.rng.random() < 0.6:
            return self.comparison()
        return self.name() if self.rng.random() < 0.6 else f"not {self.name()}"


def variable(rng: random.Random) -> str:
    word = rng.choice(WORDS)
    return f"{word}_{rng.choice(WORDS)}" if rng.random() < 0.15 else word


def function_name(rng: random.Random) -> str:
    word = rng.choice(WORDS)
    return f"{word}_{rng.choice(WORDS)}" if rng.random() < 0.6 else word


def _early_return_value(scope: Scope) -> str:
    return scope.rng.choice((scope.number(), "0", "False", "True", "[]", scope.atom()))


def filler(scope: Scope) -> str:
    """One statement (or two lines) that cannot carry a defect of the scope's kind; may bring a new name into scope."""
    rng, kind = scope.rng, scope.kind
    fresh, element = variable(rng), rng.choice(WORDS)
    choices: list[Callable[[], str]] = [
        lambda: f"    {fresh} = {scope.arithmetic()}",
        lambda: f"    {fresh} = {scope.attribute()}",
        lambda: f"    {fresh} = round({scope.name()}, 2)",
        lambda: f"    {fresh} = list({scope.name()})",
        lambda: f"    {fresh} = {scope.name()}.strip()",
        lambda: f"    {fresh} = {scope.name()}.split()",
        lambda: f"    {fresh} = sum({element}.{variable(rng)} for {element} in {scope.name()})",
        lambda: f"    if {scope.condition()}:\n        return {scope.value()}",
        lambda: f"    if {scope.comparison()}:\n        return {rng.choice(('0', 'False', 'True', '[]'))}",
        lambda: f"    if {scope.condition()}:\n        {scope.name()} = {scope.value()}",
    ]
    if kind != "negation":
        choices += [
            lambda: f"    if not {scope.name()}:\n        return {_early_return_value(scope)}",
            lambda: f'    if not {scope.name()}:\n        raise ValueError("{rng.choice(WORDS)}")',
        ]
    if kind != "extreme":
        choices.append(lambda: f"    {fresh} = {rng.choice(('min', 'max'))}({scope.name()}, {scope.atom()})")
    if kind != "limit":
        choices.append(
            lambda: f"    {fresh} = [{element} for {element} in {scope.name()} if {element} > {scope.atom()}]"
        )
    statement = rng.choice(choices)()
    if statement.startswith(f"    {fresh} = "):
        scope.names.append(fresh)
    return statement
