"""Verdicts that are kept: their keys, their readers, and what a damaged file costs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import swerl_agent
from swerl_agent.grading import Verdict
from swerl_agent.grading.cache import FILE, VerdictCache, cache_key, grader_version, limits
from swerl_api import GradingSpec


def test_cache_keeps_verdicts_but_no_infrastructure_errors(tmp_path: Path) -> None:
    cache = VerdictCache(tmp_path)
    cache.put("good", Verdict("resolved", {"a": 1}))
    cache.put("bad", Verdict("infra_error"))
    found = VerdictCache(tmp_path).get("good")
    assert found
    assert (found.status, found.cached, found.report) == ("resolved", True, {"a": 1})
    assert VerdictCache(tmp_path).get("bad") is None


def test_verdict_on_another_image_of_that_name_is_not_used(tmp_path: Path) -> None:
    VerdictCache(tmp_path).put("moved", Verdict("resolved", image="host/task@sha256:aa"))
    cache = VerdictCache(tmp_path)
    assert cache.get("moved", "host/task@sha256:bb") is None
    assert cache.get("moved", "mirror/task@sha256:aa")
    assert cache.get("moved")
    cache.put("moved", Verdict("unresolved", image="host/task@sha256:bb"))
    assert cache.get("moved", "host/task@sha256:aa") is None


def test_many_processes_share_a_cache(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom swerl_agent.grading.cache import VerdictCache\n"
        "from swerl_agent.grading.verdict import Verdict\ncache = VerdictCache(Path(sys.argv[1]))\n"
        "for n in range(20):\n    cache.put(f'{sys.argv[2]}-{n}', Verdict('resolved'))\n    cache.get(f'0-{n}')\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(n)]) for n in range(4)]
    assert [process.wait(60) for process in running] == [0] * 4
    cache = VerdictCache(tmp_path)
    assert all(cache.get(f"{process}-{n}") for process in range(4) for n in range(20))


def test_damaged_cache_is_set_aside_and_started_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database " * 1000)
    cache = VerdictCache(tmp_path)
    assert cache.get("good") is None
    cache.put("good", Verdict("resolved"))
    assert VerdictCache(tmp_path).get("good")
    assert len(list(tmp_path.glob(f"{FILE}.damaged-*"))) == 1


def test_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    cache = VerdictCache(tmp_path / "file")
    cache.put("good", Verdict("resolved"))
    assert cache.get("good")
    assert "verdicts are not kept" in caplog.text


def test_key_depends_on_every_part_and_its_place() -> None:
    keys = {cache_key(parts) for parts in ("ab", ["ab", ""], ["", "ab"], ["a", "b", ""], ["a", "\udcff"])}
    assert len(keys) == 5


@pytest.mark.parametrize(
    ("verdict", "lasting"),
    [
        (Verdict("timeout"), False),
        (Verdict("infra_error"), False),
        (Verdict("unresolved", {"exhausted": "memory"}), False),
        (Verdict("unresolved", {"limited": True}, detail="the log could not be read within 60 s"), False),
        (Verdict("unresolved", {"oom_kills": 1}, detail="FAIL_TO_PASS 0/1"), False),
        (Verdict("patch_apply_failed", {"oom_kills": 1}), False),
        (Verdict("unresolved", detail="the tests were killed by SIGSEGV"), False),
        (Verdict("resolved", {"limited": True, "contrast": "unavailable"}), False),
        (Verdict("resolved", {"oom_kills": 1}), True),
        (Verdict("unresolved", {"oom_kills": 0}), True),
        (Verdict("resolved", {"contrast": "unavailable"}), True),
    ],
)
def test_what_a_limit_decided_is_not_kept(verdict: Verdict, lasting: bool) -> None:
    cache = VerdictCache()
    cache.put("key", verdict)
    assert verdict.lasting == lasting == (cache.get("key") is not None)


@pytest.mark.parametrize(
    "changes",
    [
        {"timeout_seconds": 7},
        {"contrast": "never"},
        {"allow_unshielded": True},
        {"resources": {"limits": {"memory": "123Mi"}}},
        {"resources": {"requests": {"cpu": "7"}}},
    ],
)
def test_limits_are_part_of_a_verdicts_key(changes: dict[str, object]) -> None:
    assert cache_key(limits(GradingSpec())) != cache_key(limits(GradingSpec.model_validate(changes)))
    assert cache_key(limits(GradingSpec())) == cache_key(limits(GradingSpec(max_concurrent=3)))


def test_version_of_the_grader_is_another_one_for_other_code(tmp_path: Path) -> None:
    shutil.copytree(Path(swerl_agent.__file__).parent, tmp_path / "swerl_agent")
    program = "from swerl_agent.grading.cache import grader_version; print(grader_version())"

    def version() -> str:
        paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        environment = os.environ | {"PYTHONPATH": paths}
        return subprocess.check_output([sys.executable, "-c", program], env=environment, text=True).strip()

    found = [version()]
    for name in ("verdict_rules.py", "grade.sh", "witness/swerl_record.py", "witness/runners/sitecustomize.py"):
        with (tmp_path / "swerl_agent/grading" / name).open("a") as file:
            file.write("# changed\n")
        found.append(version())
    assert found[0] == grader_version()
    assert len(set(found)) == 5
