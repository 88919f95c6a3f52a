"""A task on Django itself, from its source distribution, whose tests Django's own runner runs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from swerl_agent.tasks import GroundTruth, Task

from cluster.layout import swerl_home

from .task_image import Repository

DJANGO = "django-5.2.8"
NEEDED = ("asgiref==3.8.1", "sqlparse==0.5.3", "tblib==3.0.0")
TEXT = "django/utils/text.py"
FAULT = ("value.lower())", "value)")  # in `slugify`, and what it was
PASSING = "test_wrap (utils_tests.test_text.TestUtilsText.test_wrap)"
FAILING = "test_slugify (utils_tests.test_text.TestUtilsText.test_slugify)"
# What the tests of the task are beside these: hundreds that need no database, and some that do.
MODULES = "utils_tests.test_text forms_tests.tests.test_forms basic expressions_case test_utils"


def downloaded() -> Path:
    """A folder with the source of Django and the wheels that it needs, fetched once."""
    home = swerl_home() / "sdists" / DJANGO
    if not (home / f"{DJANGO}.tar.gz").exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(home)]
        subprocess.run([*pip, *NEEDED], check=True)
        subprocess.run([*pip, "--no-binary", ":all:", DJANGO.replace("-", "==")], check=True)
    return home


class Django(Repository):
    """Django's repository with a fault in `slugify`; what it needs lies in `deps`, unknown to git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / DJANGO
        with tarfile.open(downloaded() / f"{DJANGO}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        self.original = self.read(TEXT)
        self.write(TEXT, self.original.replace(*FAULT))
        assert self.read(TEXT) != self.original
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "-m", "Base")
        self.commit = self.git("rev-parse", "HEAD").strip()
        (self.folder / ".git/info/exclude").write_text("/deps\n__pycache__\n")
        for wheel in downloaded().glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(self.folder / "deps")

    def read(self, name: str) -> str:
        """A file of the work tree."""
        return (self.folder / name).read_text()

    def task_of(self, image: str, *, parallel: int = 1, kept: tuple[str, ...] = (PASSING,)) -> Task:
        """The task to fix `slugify`, and to keep what `kept` names."""
        script = (
            "#!/bin/bash\nset -uxo pipefail\ncd /testbed\nexport PYTHONPATH=/testbed:/testbed/deps\n"
            ": '>>>>> Start Test Output'\n"
            f"./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel {parallel} {MODULES}\n"
            ": '>>>>> End Test Output'\n"
        )
        ground_truth = GroundTruth(script, self.patch({TEXT: self.original}), "", (FAILING,), kept, "parse_log_django")
        return Task("django__django-1", "django/django", self.commit, "5.2", "slugify", image, ground_truth)
