"""The kernel's RCU threads run before the Pods that wait for them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.rcu import raise_priority, threads

KERNEL_THREADS = ("rcu_preempt", "rcu_exp_gp_kthread_worker", "rcu_exp_par_gp_kthread_worker/0")


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc with three RCU threads, another kernel thread, and a program that calls itself as one."""
    entries = [(name, b"") for name in (*KERNEL_THREADS, "kthreadd")] + [("rcu_preempt", b"./rcu_preempt\0")]
    for number, (name, command) in enumerate(entries, start=10):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "comm").write_text(name + "\n")
        (folder / "cmdline").write_bytes(command)
    (tmp_path / "99").mkdir()  # ended while it was read
    (tmp_path / "sys").mkdir()
    return tmp_path


def test_only_kernel_threads_of_rcu_are_found(proc: Path) -> None:
    assert sorted(threads(proc)) == [10, 11, 12]


@pytest.fixture
def ordinary_priority() -> Iterator[None]:
    """The threads as a kernel without a boot parameter has them; afterwards as they were."""
    before = {thread: (os.sched_getscheduler(thread), os.sched_getparam(thread)) for thread in threads()}
    for thread in before:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    yield
    for thread, (policy, parameter) in before.items():
        os.sched_setscheduler(thread, policy, parameter)


@pytest.mark.usefixtures("ordinary_priority")
def test_threads_of_this_kernel_run_in_real_time() -> None:
    raise_priority()
    assert {os.sched_getscheduler(thread) for thread in threads()} <= {os.SCHED_FIFO}


def test_program_that_is_named_like_a_thread_keeps_its_priority(tmp_path: Path) -> None:
    program = tmp_path / "rcu_preempt"
    program.symlink_to("/bin/sleep")
    with subprocess.Popen([program, "60"]) as process:
        raise_priority()
        assert os.sched_getscheduler(process.pid) == os.SCHED_OTHER
        process.kill()
