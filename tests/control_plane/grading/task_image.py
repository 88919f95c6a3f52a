"""A small real task and its image: a layer with a git repository, put on the sandbox base through the registry."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import subprocess
import tarfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from swerl_agent.tasks import GroundTruth, Task

from cluster import layout

BASE = "swe-rl/sandbox-base"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"

SOURCE = "def clamp(value, low, high):\n    return max(low, value)\n\n\ndef double(value):\n    return 2 * value\n"
FIXED = SOURCE.replace("max(low, value)", "min(high, max(low, value))")
BASE_TEST = "from calc import double\n\n\ndef test_double():\n    assert double(2) == 4\n"
HIDDEN_TEST = BASE_TEST.replace("import double", "import clamp, double") + (
    "\n\ndef test_clamp():\n    assert clamp(9, 0, 5) == 5\n"
)
FILES = {"calc.py": SOURCE, "tests/test_calc.py": BASE_TEST, "README.md": "calc\n"}
IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": "2024-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_COMMITTER_DATE": "2024-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_COUNT": "1",  # a collection in the background would change .git while the image is made of it
    "GIT_CONFIG_KEY_0": "gc.auto",
    "GIT_CONFIG_VALUE_0": "0",
}


class Repository:
    """The task's repository on this machine."""

    def __init__(self, folder: Path, files: dict[str, str] | None = None) -> None:
        self.folder = folder
        for name, content in (FILES | (files or {})).items():
            self.write(name, content)
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "First version")
        self.commit = self.git("rev-parse", "HEAD").strip()
        self._commit_later_history()

    def _commit_later_history(self) -> None:
        """What real images hold, too: the fix in a later commit, on a branch and a tag."""
        self.git("checkout", "-q", "-b", "upstream")
        self.write("calc.py", FIXED)
        self.git("commit", "-q", "-a", "-m", "Fix clamp")
        self.git("tag", "v2")
        self.git("checkout", "-q", "main")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=os.environ | IDENTITY, check=True, capture_output=True
        )
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, name: str, content: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    def patch(self, files: dict[str, str | None]) -> str:
        """The git diff that gives `files` this content (None: deletes), the work tree left as it was."""
        for name, content in files.items():
            if content is None:
                (self.folder / name).unlink()
            else:
                self.write(name, content)
        self.git("add", "-A")
        diff = self.git("diff", "--cached", "--binary")
        self.git("reset", "-q", "--hard")
        return diff

    def task(
        self, image: str, *, command: str = "python3 -m pytest -rA -p no:cacheprovider tests/test_calc.py"
    ) -> Task:
        test_patch = self.patch({"tests/test_calc.py": HIDDEN_TEST})
        script = (
            "#!/bin/bash\nset -uxo pipefail\ncd /testbed\n"
            f"git checkout {self.commit} tests/test_calc.py\n"
            f"git apply -v - <<'EOF_114329324912'\n{test_patch}EOF_114329324912\n"
            f": '>>>>> Start Test Output'\n{command}\n: '>>>>> End Test Output'\n"
            f"git checkout {self.commit} tests/test_calc.py\n"
        )
        ground_truth = GroundTruth(
            eval_script=script,
            patch=self.patch({"calc.py": FIXED}),
            test_patch=test_patch,
            fail_to_pass=("tests/test_calc.py::test_clamp",),
            pass_to_pass=("tests/test_calc.py::test_double",),
        )
        return Task("calc__calc-1", "calc/calc", self.commit, "1", "clamp ignores `high`.", image, ground_truth)


def push_image(repository: Repository, *, user: str = "", outside: Path | None = None) -> str:
    """Put the repository at /testbed of the sandbox base, for `user` if given; the reference the cluster pulls.

    `outside`: a folder whose files lie at the image's top.
    """
    registry = layout.registry()
    layer = _tar({repository.folder: "testbed/", **({outside: ""} if outside else {})})
    packed = gzip.compress(layer, mtime=0)
    manifest = json.loads(_call(registry, "GET", f"/v2/{BASE}/manifests/latest", accept=OCI_MANIFEST))
    config = json.loads(_call(registry, "GET", f"/v2/{BASE}/blobs/{manifest['config']['digest']}"))
    config["rootfs"]["diff_ids"].append(_digest(layer))
    config.pop("history", None)
    config["config"]["User"] = user
    blob = json.dumps(config).encode()
    manifest["config"] |= {"digest": _digest(blob), "size": len(blob)}
    media = "application/vnd.oci.image.layer.v1.tar+gzip"
    manifest["layers"].append({"mediaType": media, "digest": _digest(packed), "size": len(packed)})
    for content in (packed, blob):
        _upload(registry, content)
    tag = f"grading-{_digest(blob)[7:19]}"
    _call(registry, "PUT", f"/v2/{BASE}/manifests/{tag}", json.dumps(manifest).encode(), content_type=OCI_MANIFEST)
    return f"{layout.REGISTRY_NAME}/{BASE}:{tag}"


def _tar(folders: dict[Path, str]) -> bytes:
    """What each folder holds, under the name that belongs to it."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as archive:
        for folder, name in folders.items():
            for path in sorted(folder.rglob("*")):
                entry = archive.gettarinfo(path, f"{name}{path.relative_to(folder)}")
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = "root"
                archive.addfile(entry, path.open("rb") if entry.isfile() else None)
    return output.getvalue()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _upload(registry: str, blob: bytes) -> None:
    try:
        _call(registry, "HEAD", f"/v2/{BASE}/blobs/{_digest(blob)}")
    except urllib.error.HTTPError:
        request = urllib.request.Request(f"http://{registry}/v2/{BASE}/blobs/uploads/", method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            location = answer.headers["Location"]
        path = location.removeprefix(f"http://{registry}")
        joint = "&" if "?" in path else "?"
        _call(registry, "PUT", f"{path}{joint}digest={_digest(blob)}", blob, content_type="application/octet-stream")


def _call(
    registry: str, method: str, path: str, body: bytes | None = None, *, accept: str = "", content_type: str = ""
) -> Any:
    headers = {key: value for key, value in (("Accept", accept), ("Content-Type", content_type)) if value}
    request = urllib.request.Request(f"http://{registry}{path}", data=body, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read()
