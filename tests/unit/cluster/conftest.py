"""The cluster package runs from the checkout, never installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))
