"""The `swerl` command.

Exit codes: 0 success; 1 a check failed or an episode did not solve its task; 2 wrong usage or input; 3 the
infrastructure failed; 130 after Ctrl-C; 143 after SIGTERM. Both signals shut down in order and keep the results.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from swerl_kube import ConfigError, KubeContext, KubeError

from swerl_agent.audit import TrajectoryError
from swerl_agent.episode import EndpointError, EngineError, PromptError, TokenizerError
from swerl_agent.evaluation import EvaluationAborted, ResultsError
from swerl_agent.grading import GradingError
from swerl_agent.grading.predictions import PredictionError
from swerl_agent.registry import CredentialError
from swerl_agent.sandbox import SandboxError
from swerl_agent.tasks import TaskError

from . import doctor, episode, eval, grade, images, sandbox, serve, tasks, trajectories, view
from .former_names import former_names

USAGE_ERRORS = (
    ConfigError,
    CredentialError,
    EndpointError,
    PredictionError,
    PromptError,
    ResultsError,
    TaskError,
    TokenizerError,
    TrajectoryError,
    argparse.ArgumentTypeError,
)
INFRASTRUCTURE_ERRORS = (EngineError, EvaluationAborted, GradingError, KubeError, SandboxError)


class Parser(argparse.ArgumentParser):
    """Answers wrong usage with one line instead of all options; its subparsers do so, too."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong; exit with 2."""
        self.exit(2, f"{self.prog}: {message} ({self.prog} --help lists the options)\n")


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = Parser(prog="swerl", description="Tasks, episodes, grading and sandboxes on Kubernetes.")
    nouns = root.add_subparsers(
        dest="noun",
        required=True,
        metavar="tasks|images|episode|eval|grade|sandbox|serve|trajectories|view|doctor",
    )
    tasks.add_parsers(nouns.add_parser("tasks", help="list, import and check task sets"))
    images.add_parsers(nouns.add_parser("images", help="list task images that registries or nodes lack"))
    episode.add_parsers(nouns.add_parser("episode", help="run and grade one episode"))
    eval.add_parsers(nouns.add_parser("eval", help="measure how many tasks a model solves"))
    grade.add_parser(nouns.add_parser("grade", help="grade a file of predictions"))
    sandbox.add_parsers(nouns.add_parser("sandbox", help="run commands or a shell in sandboxes"))
    serve.add_parser(nouns.add_parser("serve", help="serve rollouts over HTTP to trainers of other frameworks"))
    trajectories.add_parsers(nouns.add_parser("trajectories", help="audit the trajectories of episodes"))
    view.add_parser(nouns.add_parser("view", help="show jobs, evaluations and trajectories in the browser"))
    doctor.add_parser(nouns.add_parser("doctor", help="examine a cluster: what it lacks, and how to mend it"))
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if found := former_names(given):
        print(*(f"swerl: {line}" for line in found), sep="\n", file=sys.stderr)
        return 2
    options = parser().parse_args(given)
    if getattr(options, "context", None):
        options.kubeconfig = KubeContext(options.kubeconfig, options.context)
    try:
        return asyncio.run(_to_its_end(options))
    except USAGE_ERRORS as error:
        print(f"swerl: {error}", file=sys.stderr)
        return 2
    except INFRASTRUCTURE_ERRORS as error:
        print(f"swerl: {type(error).__name__}: {error}", file=sys.stderr)
        return 3
    except asyncio.CancelledError:
        print("swerl: ended by SIGTERM; results so far are kept: run the same command again", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough; nothing more may be flushed there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        print(f"swerl: {error}; results so far are kept: run the same command again", file=sys.stderr)
        return 3


async def _to_its_end(options: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():  # Python lets no other one handle signals
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return int(await options.run(options))
