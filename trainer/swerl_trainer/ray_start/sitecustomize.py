"""Lets Ray start on a slow machine; active where this folder is on PYTHONPATH.

A raylet aborts if its agents do not write their ports to files within 15 seconds, and the limit is fixed. On a busy
machine an agent may need longer to import. Agents with fixed ports know them before any import, so they write the files
here, at the start of their interpreter. Guarantee: no effect in other processes; an agent with a random port (0) still
writes it itself, later.
"""

import os
import sys

# Ending of an agent's script -> {its flag: the name of the file the raylet waits for}
AGENTS = {
    os.path.join("dashboard", "agent.py"): {
        "--grpc-port": "metrics_agent_port",
        "--metrics-export-port": "metrics_export_port",
        "--listen-port": "dashboard_agent_listen_port",
    },
    os.path.join("runtime_env", "agent", "main.py"): {"--runtime-env-agent-port": "runtime_env_agent_port"},
}


def write_port_files(arguments: list[str]) -> list[str]:
    """Write the port files of the Ray agent with this command line; the files written."""
    names = next((AGENTS[end] for argument in arguments for end in AGENTS if argument.endswith(end)), {})
    flags = dict(argument.split("=", 1) for argument in arguments if argument.startswith("--") and "=" in argument)
    written = []
    for flag, name in names.items():
        port = flags.get(flag, "")
        if port.isdigit() and port != "0" and "--session-dir" in flags and "--node-id" in flags:
            path = os.path.join(flags["--session-dir"], f"{name}_{flags['--node-id']}")
            with open(path + ".part", "w") as file:
                file.write(port)
            os.replace(path + ".part", path)
            written.append(path)
    return written


write_port_files(sys.orig_argv)
