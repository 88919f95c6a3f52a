"""The cells of the notebook run as they stand: sandboxes are claimed, patches graded, an evaluation plotted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.control_plane.operator_process import Operator

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "examples" / "notebooks" / "first_sandbox.ipynb"


def program() -> str:
    """The code cells, one after the other."""
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_every_cell_runs(operator: Operator, kubeconfig: str, namespace: str, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(kubeconfig).read_text())
    config["contexts"][0]["context"]["namespace"] = namespace
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(config))
    (tmp_path / "tasks").symlink_to(ROOT / "tasks")
    environment = os.environ | {"KUBECONFIG": str(own), "PYTHONPATH": os.pathsep.join(sys.path), "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, "-c", program()], cwd=tmp_path, env=environment, text=True, capture_output=True, timeout=400
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-3000:]}"
    report = json.loads((tmp_path / "notebook-reports" / "notebook.json").read_text())
    assert sorted(report["resolved_ids"]) == ["swe-rl__journal-1", "swe-rl__store-4"], done.stdout
    assert (tmp_path / "notebook-reports" / "resolved.png").read_bytes().startswith(b"\x89PNG")
