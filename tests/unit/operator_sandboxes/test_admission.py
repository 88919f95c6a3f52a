"""Groups are admitted whole, in order, within the limit."""

from __future__ import annotations

import random

from swerl_operator.sandboxes.admission import Admissions

SCOPE = ("ns", "job")


def test_first_come_first_served() -> None:
    line = Admissions()
    for order, (name, size) in enumerate({"a": 4, "b": 8, "c": 2}.items()):
        line.wait(SCOPE, name, (0.0, order), size, 8)
    assert line.admit(SCOPE) == ["a"]
    line.hold(SCOPE, "a", 2)
    assert line.admit(SCOPE) == []  # c would fit, but b is older
    line.leave(SCOPE, "a")
    assert line.admit(SCOPE) == ["b"]
    line.hold(SCOPE, "b", 6)
    assert line.admit(SCOPE) == ["c"]


def test_without_a_limit_nobody_waits() -> None:
    line = Admissions()
    line.wait(SCOPE, "a", (0.0, 0), 1000, None)
    line.wait(SCOPE, "b", (1.0, 1), 1000, None)
    assert line.admit(SCOPE) == ["a", "b"]


def test_a_group_larger_than_the_limit_goes_alone() -> None:
    line = Admissions()
    line.wait(SCOPE, "a", (0.0, 0), 1, 4)
    line.wait(SCOPE, "big", (1.0, 1), 9, 4)
    assert line.admit(SCOPE) == ["a"]
    line.leave(SCOPE, "a")
    assert line.admit(SCOPE) == ["big"]


def test_one_that_leaves_the_line_holds_nobody_up() -> None:
    line = Admissions()
    line.hold(SCOPE, "old", 4)
    line.wait(SCOPE, "a", (0.0, 0), 4, 4)
    line.wait(SCOPE, "b", (1.0, 1), 4, 4)
    line.leave(SCOPE, "a")
    line.leave(SCOPE, "old")
    assert line.admit(SCOPE) == ["b"]
    line.leave(SCOPE, "b")
    assert not line.known(SCOPE)


def test_the_limit_holds_over_any_history() -> None:
    for seed in range(50):
        chance, line, limit = random.Random(seed), Admissions(), 16
        sizes: dict[str, int] = {}
        admitted: list[str] = []
        for step in range(200):
            if chance.random() < 0.5:
                name = f"g{step}"
                sizes[name] = chance.randint(1, 8)
                line.wait(SCOPE, name, (float(step // 7), step), sizes[name], limit)
            elif sizes:
                name = chance.choice(list(sizes))
                if line.admitted(SCOPE, name) and sizes[name] > 1:
                    sizes[name] -= 1
                    line.hold(SCOPE, name, sizes[name])
                else:
                    line.leave(SCOPE, name)
                    del sizes[name]
            admitted += line.admit(SCOPE)
            assert line.total(SCOPE) == sum(n for g, n in sizes.items() if line.admitted(SCOPE, g)) <= limit
        assert admitted == sorted(admitted, key=lambda name: int(name[1:]))
