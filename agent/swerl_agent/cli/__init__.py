"""The `swerl` command.

Exit codes: 0 success; 1 a check failed or an episode did not solve its task; 2 wrong usage or input; 3 the
infrastructure failed; 130 after Ctrl-C; 143 after SIGTERM. Both signals shut down in order and keep the results.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Sequence

import click

from swerl_agent import RELEASE
from swerl_agent.signals import cancel_on_sigterm

from .command import Group, Invocation, Options
from .former_names import former_names

MEMBERS = {  # name -> module:attribute, help
    "init": (".jobs.init:write_job", "write a SweRLJob to start from"),
    "validate": (".jobs.files:validate_file", "say what is wrong with a job file, without creating anything"),
    "submit": (".jobs.files:submit_file", "check a job file, then create the job"),
    "list": (".jobs.steering:list_jobs", "list jobs, and why one does not train"),
    "describe": (".jobs.steering:describe_job", "say what a job does, and why it does not train"),
    "watch": (".jobs.watch:watch_job", "follow a job: progress, curves, sandboxes, warnings"),
    "logs": (".jobs.logs:print_logs", "print logs of driver, engines, ranks, sandboxes, gradings"),
    "metrics": (".jobs.results:plot_metrics", "plot metrics of a job"),
    "suspend": (".jobs.steering:suspend_job", "stop a job and keep its checkpoints"),
    "resume": (".jobs.steering:resume_job", "continue a suspended job"),
    "retry": (".jobs.steering:retry_job", "start another attempt of a failed job"),
    "cancel": (".jobs.steering:cancel_job", "delete a job with its Pods"),
    "export": (".jobs.results:export_weights", "copy a job's weights in Hugging Face format"),
    "compare": (".jobs.results:compare_runs", "compare two jobs or evaluations task by task"),
    "tasks": (".tasks:command", "list, import and check task sets"),
    "images": (".images:command", "list task images that registries or nodes lack"),
    "episode": (".episode:command", "run and grade one episode"),
    "eval": (".eval:command", "measure how many tasks a model solves"),
    "grade": (".grade:command", "grade a file of predictions"),
    "sandbox": (".sandbox:command", "run commands or a shell in sandboxes"),
    "serve": (".serve:command", "serve rollouts over HTTP to trainers of other frameworks"),
    "trajectories": (".trajectories:command", "list, show, audit, export and import the trajectories of episodes"),
    "view": (".view:command", "show jobs, evaluations and trajectories in the browser"),
    "doctor": (".doctor:command", "examine a cluster: what it lacks, and how to fix it"),
    "man": (".man:command", "write manual pages of all commands"),
    "completion": (".completion:command", "print the completion script of a shell"),
}
root = Group("swerl", help="Jobs, tasks, episodes, grading and sandboxes on Kubernetes.", members=MEMBERS)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        print(f"swerl {RELEASE}")
        context.exit()


root.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Show the version and exit.",
    )
)


def parse(arguments: Sequence[str]) -> Options:
    """The options of a command line; raises UsageError."""
    found = _parsed(arguments)
    return found.options if isinstance(found, Invocation) else Options()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if found := former_names(given):
        print(*(f"swerl: {line}" for line in found), sep="\n", file=sys.stderr)
        return 2
    kept = ""
    try:
        invocation = _parsed(given)
        kept = invocation.kept if isinstance(invocation, Invocation) else ""
        return asyncio.run(_to_its_end(invocation)) if isinstance(invocation, Invocation) else invocation
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return 2
    except click.UsageError as error:
        print(_wrong_usage(error), file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        print(f"swerl: ended by SIGTERM; {kept or 'nothing is kept'}", file=sys.stderr)
        return 143
    except KeyboardInterrupt:
        if kept:
            print(f"swerl: interrupted; {kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has seen enough; nothing more may be flushed there
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from .errors import exit_code, message  # imports the packages whose errors it knows

        if (code := exit_code(error)) is None:
            raise
        print(f"swerl: {message(error, kept)}", file=sys.stderr)
        return code


def _parsed(arguments: Sequence[str]) -> Invocation | int:
    """What the command line asks for; an exit code where `--help` or `--version` answered it."""
    found = root.main([*arguments], prog_name="swerl", standalone_mode=False)
    return found if isinstance(found, Invocation) else int(found or 0)


def _wrong_usage(error: click.UsageError) -> str:
    """One line; wrong usage names the command whose help says more, wrong input found later does not."""
    text = " ".join(error.format_message().split())
    if error.ctx is None:
        return f"swerl: {text}"
    return f"{error.ctx.command_path}: {text} ({error.ctx.command_path} --help lists the options)"


async def _to_its_end(invocation: Invocation) -> int:
    logging.basicConfig(format="swerl: %(message)s")
    logging.getLogger("swerl_agent.sandbox.waits").setLevel(logging.DEBUG)
    task = asyncio.current_task()
    assert task is not None
    if threading.current_thread() is threading.main_thread():  # Python lets no other one handle signals
        cancel_on_sigterm(task)
    return int(await invocation.work(invocation.options))
