"""`python -m swerl_agent.cli`."""

import sys

from swerl_agent.cli import main

sys.exit(main())
