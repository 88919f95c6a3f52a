"""Groups are admitted whole, in order, within the limit."""

from __future__ import annotations

import random

from swerl_operator.sandboxes.admission import FairAdmission

JOB = ("ns", "job")


def names(admission: FairAdmission) -> list[str]:
    """What is admitted now."""
    return [uid for _, uid in admission.admit(JOB)]


def test_groups_are_admitted_in_order() -> None:
    admission = FairAdmission()
    for order, (name, size) in enumerate({"a": 4, "b": 8, "c": 2}.items()):
        admission.enqueue(JOB, name, (0.0, order), size, 8)
    assert names(admission) == ["a"]
    admission.set_outstanding(JOB, "a", 2)
    assert names(admission) == []  # c would fit, but b is older
    admission.remove(JOB, "a")
    assert names(admission) == ["b"]
    admission.set_outstanding(JOB, "b", 6)
    assert names(admission) == ["c"]


def test_without_a_limit_no_group_waits() -> None:
    admission = FairAdmission()
    admission.enqueue(JOB, "a", (0.0, 0), 1000, None)
    admission.enqueue(JOB, "b", (1.0, 1), 1000, None)
    assert names(admission) == ["a", "b"]


def test_group_larger_than_the_limit_is_admitted_alone() -> None:
    admission = FairAdmission()
    admission.enqueue(JOB, "a", (0.0, 0), 1, 4)
    admission.enqueue(JOB, "big", (1.0, 1), 9, 4)
    assert names(admission) == ["a"]
    admission.remove(JOB, "a")
    assert names(admission) == ["big"]


def test_group_that_leaves_the_queue_blocks_no_other() -> None:
    admission = FairAdmission()
    admission.set_outstanding(JOB, "old", 4)
    admission.enqueue(JOB, "a", (0.0, 0), 4, 4)
    admission.enqueue(JOB, "b", (1.0, 1), 4, 4)
    admission.remove(JOB, "a")
    admission.remove(JOB, "old")
    assert names(admission) == ["b"]
    admission.remove(JOB, "b")
    assert not admission.known(JOB)


def test_limit_holds_over_any_history() -> None:
    for seed in range(50):
        rng, admission, limit = random.Random(seed), FairAdmission(), 16
        sizes: dict[str, int] = {}
        admitted: list[str] = []
        for step in range(200):
            if rng.random() < 0.5:
                name = f"g{step}"
                sizes[name] = rng.randint(1, 8)
                admission.enqueue(JOB, name, (float(step // 7), step), sizes[name], limit)
            elif sizes:
                name = rng.choice(list(sizes))
                if admission.admitted(JOB, name) and sizes[name] > 1:
                    sizes[name] -= 1
                    admission.set_outstanding(JOB, name, sizes[name])
                else:
                    admission.remove(JOB, name)
                    del sizes[name]
            admitted += names(admission)
            assert admission.total(JOB) == sum(n for g, n in sizes.items() if admission.admitted(JOB, g)) <= limit
        assert admitted == sorted(admitted, key=lambda name: int(name[1:]))


def test_jobs_share_the_limit_for_all() -> None:
    admission = FairAdmission(8)
    big, small = ("ns", "big"), ("other", "small")
    for number in range(4):
        admission.enqueue(big, f"b{number}", (0.0, number), 4, None)
    admission.enqueue(small, "s0", (9.0, 9), 2, None)
    assert names(admission) == ["b0", "s0"]  # the job with the fewest goes first, then b1 finds no room for four
    assert admission.waits_for_other_jobs(big, "b1") and not admission.waits_for_other_jobs(big, "b2")
    admission.enqueue(small, "s1", (10.0, 10), 2, None)
    assert names(admission) == ["s1"]
    admission.remove(big, "b0")
    assert names(admission) == ["b1"]
    admission.remove(small, "s0")
    admission.remove(small, "s1")
    assert names(admission) == ["b2"]


def test_large_group_is_not_starved_by_small_ones() -> None:
    admission = FairAdmission(8)
    admission.set_outstanding(("ns", "busy"), "old", 6)
    admission.enqueue(("ns", "large"), "l", (0.0, 0), 8, None)
    for number in range(20):
        admission.enqueue(("ns", "busy"), f"s{number}", (1.0, number), 1, None)
    assert names(admission) == []  # room for two, but the job with none is first and needs eight
    admission.remove(("ns", "busy"), "old")
    assert names(admission)[0] == "l"


def test_limit_for_all_holds_over_any_history() -> None:
    for seed in range(30):
        rng, admission, limit = random.Random(seed), FairAdmission(20), 16
        groups: dict[tuple[str, tuple[str, str]], int] = {}
        for step in range(200):
            scope = ("ns", rng.choice("abc"))
            if rng.random() < 0.5:
                groups[(f"g{step}", scope)] = size = rng.randint(1, 8)
                admission.enqueue(scope, f"g{step}", (float(step), step), size, limit)
            elif groups:
                name, scope = rng.choice(list(groups))
                admission.remove(scope, name)
                del groups[(name, scope)]
            names(admission)
            inside = {key: size for key, size in groups.items() if admission.admitted(key[1], key[0])}
            assert sum(inside.values()) <= 20
            waiting = [key for key in groups if key not in inside]
            assert inside or not waiting
