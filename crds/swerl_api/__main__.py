"""`python -m swerl_api [FOLDER]...`: write the CRD manifests, by default into crds/ and charts/crds/."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from .base import GROUP
from .crd import KINDS, crd

CHECKOUT = Path(__file__).resolve().parents[2]
DEFAULT_FOLDERS = (CHECKOUT / "crds", CHECKOUT / "charts" / "crds")


def manifests() -> dict[str, str]:
    """YAML text of every CRD, by file name."""
    return {
        f"{GROUP}_{kind.plural}.yaml": yaml.safe_dump(crd(kind), sort_keys=False, width=120, allow_unicode=True)
        for kind in KINDS
    }


def main(arguments: list[str]) -> None:
    """Write every manifest into each folder named, or into the checkout's own."""
    for folder in [Path(argument) for argument in arguments] or list(DEFAULT_FOLDERS):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in manifests().items():
            (folder / name).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
