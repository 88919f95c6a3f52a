"""The entry point of the router's process: smg's own, with the API key of the environment."""

from __future__ import annotations

import sys

from swerl_trainer.engines.api_key import key_arguments

MODULE = "swerl_trainer.engines.router_process"


def main(arguments: list[str]) -> None:
    """Run the router until it is stopped."""
    from smg.cli import main as run_smg

    run_smg(["launch", *arguments, *key_arguments()])


if __name__ == "__main__":
    main(sys.argv[1:])
