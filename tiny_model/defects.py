"""Random functions with one defect each, the raw material of the pre-training episodes.

Guarantee: the defective fragment occurs once in the function, and replacing it (once) by the good one repairs it.

Every generator below gives a template in which SITE marks the defect, with the good and the bad fragment.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from tiny_model.scope import WORDS, Defect, Scope, filler, function_name, variable

KINDS = ("limit", "extreme", "condition", "sign", "fraction", "quantifier", "order", "offset", "negation", "edge")
SITE = "@@"  # marks the place of the defect while a module is being built
FLIPPED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def _return_statement(scope: Scope) -> str:
    return f"    return {scope.value()}"


def _limit(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    left, right = scope.two_atoms()
    good = rng.choice(("<", "<=", ">", ">="))
    element, fresh = rng.choice(WORDS), variable(rng)
    if rng.random() < 0.3:
        left = f"{element}.{variable(rng)}" if rng.random() < 0.6 else element
        host = rng.choice(
            (
                f"    return [{element} for {element} in {scope.name()} if {SITE}]",
                f"    return sum(1 for {element} in {scope.name()} if {SITE})",
                f"    for {element} in {scope.name()}:\n        if {SITE}:\n            return {element}",
                f"    {fresh} = []\n    for {element} in {scope.name()}:\n        if {SITE}:\n"
                f"            {fresh}.append({element})\n    return {fresh}",
            )
        )
    else:
        host = rng.choice(
            (
                f"    return {SITE}",
                f"    if {SITE}:\n        return {scope.value()}\n{_return_statement(scope)}",
                f"    if {SITE}:\n        {scope.name()} = {scope.value()}\n{_return_statement(scope)}",
                f"    if {SITE} and {scope.name()}:\n        return {scope.value()}\n{_return_statement(scope)}",
                f"    while {SITE}:\n        {scope.name()} += {scope.atom()}\n{_return_statement(scope)}",
                f"    return {scope.value()} if {SITE} else {scope.value()}",
            )
        )
    return host, f"{left} {good} {right}", f"{left} {FLIPPED[good]} {right}"


def _extreme(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    good, bad = rng.sample(("min", "max"), 2)
    element = rng.choice(WORDS)
    if rng.random() < 0.35:
        first = f"{element}.{variable(rng)}"
        rest = rng.choice((f" for {element} in {scope.name()})", f" - {scope.atom()} for {element} in {scope.name()})"))
    else:
        first = scope.name() if rng.random() < 0.7 else scope.number()
        one = not first.isdigit()
        rest = rng.choice((f", {scope.atom()})", ")", ", key=len)")) if one else f", {scope.value()})"
    host = rng.choice(
        (
            f"    return {SITE}{rest}",
            f"    {scope.name()} = {SITE}{rest}\n{_return_statement(scope)}",
            f"    return {scope.name()} * {SITE}{rest}",
            f"    return {scope.name()} - {SITE}{rest}",
        )
    )
    return host, f"{good}({first}", f"{bad}({first}"


def _condition(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    element = rng.choice(WORDS)
    prefix, left = ("", scope.name())
    if rng.random() < 0.5:
        first, left = scope.two_atoms()
        prefix = f"{first} {rng.choice(('<', '>', '>=', '<=', '=='))} "
    right, suffix = scope.atom(), ""
    if rng.random() < 0.6:
        suffix = f" {rng.choice(('<', '>', '>=', '<=', '=='))} {scope.atom()}"
    elif right.isdigit():
        right = scope.name()
    if rng.random() < 0.15:
        right = f"not {right}"
    whole = f"{prefix}{SITE}{suffix}"
    host = rng.choice(
        (
            f"    return {whole}",
            f"    if {whole}:\n        return {scope.value()}\n{_return_statement(scope)}",
            f"    if {whole}:\n        {scope.name()} = {scope.value()}\n{_return_statement(scope)}",
            f"    return [{element} for {element} in {scope.name()} if {whole}]",
        )
    )
    good, bad = rng.sample(("and", "or"), 2)
    return host, f"{left} {good} {right}", f"{left} {bad} {right}"


def _arithmetic_host(scope: Scope) -> str:
    rng = scope.rng
    element = rng.choice(WORDS)
    return rng.choice(
        (
            f"    return {SITE}",
            f"    return {SITE}",
            f"    {scope.name()} = {SITE}\n{_return_statement(scope)}",
            f"    return round({SITE}, {rng.choice((1, 2))})",
            f"    return {scope.name()} * ({SITE})",
            f"    return max(0, {SITE})",
            f"    return [{SITE} for {element} in {scope.name()}]",
            f"    if {scope.condition()}:\n        return {SITE}\n    return {scope.name()}",
        )
    )


def _sign(scope: Scope) -> tuple[str, str, str]:
    left, right = scope.two_atoms()
    good, bad = scope.rng.sample("+-", 2)
    return _arithmetic_host(scope), f"{left} {good} {right}", f"{left} {bad} {right}"


def _fraction(scope: Scope) -> tuple[str, str, str]:
    left, right = scope.two_atoms()
    if scope.rng.random() < 0.25:
        left = f"sum({scope.name()})"
    good, bad = scope.rng.sample(("/", "//"), 2)
    return _arithmetic_host(scope), f"{left} {good} {right}", f"{left} {bad} {right}"


def _quantifier(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    element = rng.choice(WORDS)
    suffix = rng.choice(
        (f".{variable(rng)}", f".{variable(rng)} > {scope.atom()}", f" == {scope.atom()}", f" in {scope.name()}")
    )
    call = f"{SITE}{suffix} for {element} in {scope.name()})"
    host = rng.choice(
        (
            f"    return {call}",
            f"    if {call}:\n        return {scope.value()}\n{_return_statement(scope)}",
            f"    return not {call}",
        )
    )
    good, bad = rng.sample(("any", "all"), 2)
    return host, f"{good}({element}", f"{bad}({element}"


def _order(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    name, fresh = scope.name(), variable(rng)
    element = rng.choice(WORDS)
    key = rng.choice((variable(rng), "len"))
    head, before = rng.choice(
        (
            ("sorted(", name),
            ("sorted(", name),
            (f"sorted({name}, key=", "len"),
            (f"sorted({name}, key=lambda {element}: {element}.", key),
        )
    )
    call = f"{head}{SITE})"
    host = rng.choice(
        (
            f"    return {call}",
            f"    {scope.name()} = {call}\n    return {scope.name()}",
            f"    return {call}[:{scope.atom()}]",
            f"    {fresh} = {call}\n    return {fresh}[:{scope.name()}]",
        )
    )
    good, bad = rng.sample(("True", "False"), 2)
    return host, f"{before}, reverse={good}", f"{before}, reverse={bad}"


def _offset(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    base = rng.choice((scope.name(), scope.name(), scope.attribute(), f"len({scope.name()})"))
    element = rng.choice(WORDS)
    host = rng.choice(
        (
            f"    return {SITE}",
            f"    return {scope.name()}[:{SITE}]",
            f"    return list(range({SITE}))",
            f"    for {element} in range({SITE}):\n        {scope.name()}.append({element})\n    return {scope.name()}",
            f"    {scope.name()} = {SITE}\n    return {scope.name()}",
            f"    return {scope.name()} * ({SITE})",
        )
    )
    return host, base, f"{base} {rng.choice('+-')} 1"


def _negation(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    subject = scope.name() if rng.random() < 0.6 else scope.attribute()
    host = rng.choice(
        (
            f"    {SITE}:\n        return {scope.value()}\n{_return_statement(scope)}",
            f"    {SITE}:\n        {scope.name()} = {scope.value()}\n{_return_statement(scope)}",
            f'    {SITE}:\n        raise ValueError("{rng.choice(WORDS)}")\n{_return_statement(scope)}',
        )
    )
    good, bad = rng.sample((f"if {subject}", f"if not {subject}"), 2)
    return host, good, bad


def _edge(scope: Scope) -> tuple[str, str, str]:
    rng = scope.rng
    subject = scope.name()
    argument = rng.choice((scope.name(), f'"{rng.choice(WORDS)}"', scope.name()))
    element = rng.choice(WORDS)
    call = f"{SITE})"
    host = rng.choice(
        (
            f"    return {call}",
            f"    if {call}:\n        return {scope.value()}\n{_return_statement(scope)}",
            f"    return [{element} for {element} in {scope.name()} if {call}]",
        )
    )
    good, bad = rng.sample(("startswith", "endswith"), 2)
    return host, f"{subject}.{good}({argument}", f"{subject}.{bad}({argument}"


GENERATORS: dict[str, Callable[[Scope], tuple[str, str, str]]] = {
    "limit": _limit, "extreme": _extreme, "condition": _condition, "sign": _sign, "fraction": _fraction,
    "quantifier": _quantifier, "order": _order, "offset": _offset, "negation": _negation, "edge": _edge,
}  # fmt: skip


def _function(rng: random.Random, kind: str, name: str) -> tuple[str, str, str]:
    """Source with the site marked, the good and the bad fragment."""
    parameters = list(dict.fromkeys(variable(rng) for _ in range(rng.choice((1, 2, 2, 3, 3, 4)))))
    scope = Scope(rng, list(parameters), kind)
    fillers = [filler(scope) for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 2)))]
    host, good, bad = GENERATORS[kind](scope)
    lines = [f"def {name}({', '.join(parameters)}):", *fillers, host]
    return "\n".join(lines), good, bad


def random_defect(rng: random.Random) -> Defect:
    """A fresh module with one defect of a random kind; whatever follows the defective function is left out."""
    while True:
        kind = rng.choice(KINDS)
        name = function_name(rng)
        source, good, bad = _function(rng, kind, name)
        if source.count(SITE) == 1 and bad not in source and good != bad:
            broken = source.replace(SITE, bad)
            if broken.count(bad) == 1:
                return Defect(kind, f"{rng.choice(WORDS)}/{rng.choice(WORDS)}.py", name, broken, bad, good)
