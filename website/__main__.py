"""`python -m website FOLDER`: build the documentation's site into FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from .build import build

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    build(folder)
    print(f"documentation: {folder / 'index.html'}; to read it: python3 -m http.server --directory {folder}")
