"""Groups are admitted whole, in order, within the limit."""

from __future__ import annotations

import random

from swerl_operator.sandboxes.admission import Admissions

SCOPE = ("ns", "job")


def names(line: Admissions) -> list[str]:
    """What is admitted now."""
    return [uid for _, uid in line.admit(SCOPE)]


def test_first_come_first_served() -> None:
    line = Admissions()
    for order, (name, size) in enumerate({"a": 4, "b": 8, "c": 2}.items()):
        line.wait(SCOPE, name, (0.0, order), size, 8)
    assert names(line) == ["a"]
    line.hold(SCOPE, "a", 2)
    assert names(line) == []  # c would fit, but b is older
    line.leave(SCOPE, "a")
    assert names(line) == ["b"]
    line.hold(SCOPE, "b", 6)
    assert names(line) == ["c"]


def test_without_a_limit_nobody_waits() -> None:
    line = Admissions()
    line.wait(SCOPE, "a", (0.0, 0), 1000, None)
    line.wait(SCOPE, "b", (1.0, 1), 1000, None)
    assert names(line) == ["a", "b"]


def test_a_group_larger_than_the_limit_goes_alone() -> None:
    line = Admissions()
    line.wait(SCOPE, "a", (0.0, 0), 1, 4)
    line.wait(SCOPE, "big", (1.0, 1), 9, 4)
    assert names(line) == ["a"]
    line.leave(SCOPE, "a")
    assert names(line) == ["big"]


def test_one_that_leaves_the_line_holds_nobody_up() -> None:
    line = Admissions()
    line.hold(SCOPE, "old", 4)
    line.wait(SCOPE, "a", (0.0, 0), 4, 4)
    line.wait(SCOPE, "b", (1.0, 1), 4, 4)
    line.leave(SCOPE, "a")
    line.leave(SCOPE, "old")
    assert names(line) == ["b"]
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
            admitted += names(line)
            assert line.total(SCOPE) == sum(n for g, n in sizes.items() if line.admitted(SCOPE, g)) <= limit
        assert admitted == sorted(admitted, key=lambda name: int(name[1:]))


def test_jobs_share_the_limit_for_all() -> None:
    line = Admissions(8)
    big, small = ("ns", "big"), ("other", "small")
    for number in range(4):
        line.wait(big, f"b{number}", (0.0, number), 4, None)
    line.wait(small, "s0", (9.0, 9), 2, None)
    assert names(line) == ["b0", "s0"]  # the job with the fewest goes first, then b1 finds no room for four
    assert line.others_first(big, "b1") and not line.others_first(big, "b2")
    line.wait(small, "s1", (10.0, 10), 2, None)
    assert names(line) == ["s1"]
    line.leave(big, "b0")
    assert names(line) == ["b1"]
    line.leave(small, "s0")
    line.leave(small, "s1")
    assert names(line) == ["b2"]


def test_a_large_group_is_not_starved_by_small_ones() -> None:
    line = Admissions(8)
    line.hold(("ns", "busy"), "old", 6)
    line.wait(("ns", "large"), "l", (0.0, 0), 8, None)
    for number in range(20):
        line.wait(("ns", "busy"), f"s{number}", (1.0, number), 1, None)
    assert names(line) == []  # room for two, but the job with none is first and needs eight
    line.leave(("ns", "busy"), "old")
    assert names(line)[0] == "l"


def test_the_limit_for_all_holds_over_any_history() -> None:
    for seed in range(30):
        chance, line, limit = random.Random(seed), Admissions(20), 16
        groups: dict[tuple[str, tuple[str, str]], int] = {}
        for step in range(200):
            scope = ("ns", chance.choice("abc"))
            if chance.random() < 0.5:
                groups[(f"g{step}", scope)] = size = chance.randint(1, 8)
                line.wait(scope, f"g{step}", (float(step), step), size, limit)
            elif groups:
                name, scope = chance.choice(list(groups))
                line.leave(scope, name)
                del groups[(name, scope)]
            names(line)
            inside = {key: size for key, size in groups.items() if line.admitted(key[1], key[0])}
            assert sum(inside.values()) <= 20
            waiting = [key for key in groups if key not in inside]
            assert inside or not waiting
