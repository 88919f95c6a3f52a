"""The entry point of a server on GPUs: SGLang's own, with the API key of the environment.

SGLang's children are fresh interpreters that import this module again; it imports nothing before `main`.
"""

from __future__ import annotations

import os
import sys

MODULE = "swerl_trainer.engines.gpu"


def main(arguments: list[str]) -> None:
    """Run one SGLang server until it is stopped."""
    from sglang.launch_server import run_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree
    from swerl_trainer.engines.api_key import hide_key_from_log, key_arguments
    from swerl_trainer.engines.json_lines import apply_config

    load_plugins()
    server_args = prepare_server_args([*arguments, *key_arguments()])
    apply_config()
    hide_key_from_log()
    try:
        run_server(server_args)
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main(sys.argv[1:])
