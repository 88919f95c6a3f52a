"""`swerl serve`: the agent for trainers of other frameworks, over HTTP.

Guarantee: SIGTERM and SIGINT end it in order, and its sandboxes go with it however it ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import click
from swerl_api import AgentSpec
from swerl_api.addresses import LOOPBACK

from swerl_agent.episode import HFTokenizer, Prompts, agent_protocol, with_template_options
from swerl_agent.evaluation import BUILTIN, SampleRunner, open_sample_runner
from swerl_agent.signals import stop_event
from swerl_agent.tasks.importing import ImportRequest

from .command import Options, keeps
from .log_options import announce, configure_log, log_option
from .options import (
    agent_options,
    agent_spec,
    cluster_options,
    open_client,
    prompts_text,
)
from .pod_options import (
    grading_options,
    grading_settings,
    pod_options,
    sandbox_options,
    sandbox_settings,
)
from .task_options import eval_scripts, rewrite_option, script_option
from .values import HTTP_URL, NON_NEGATIVE, PATH, PORT, POSITIVE

if TYPE_CHECKING:
    from swerl_agent.server import AgentServer, RequestDefaults, RequestRunner, ServerAccess


DEFAULTS = AgentSpec(step_limit=250, command_timeout_seconds=600, episode_timeout_seconds=3600, repeat_limit=3)


@click.command("serve", help="Serve rollouts over HTTP to trainers of other frameworks.")
@click.option("--host", default="127.0.0.1", help="address to serve at (default 127.0.0.1)")
@click.option("--port", type=PORT, default=11_000, help="port; 0: a free one (default 11000)")
@click.option("--token-file", type=PATH, metavar="FILE", help="file with the token that clients must send")
@click.option("--no-token", is_flag=True, help="accept requests from all clients that reach the port, without a token")
@click.option("--concurrency", type=POSITIVE, default=16, help="concurrent episodes (default 16)")
@click.option(
    "--grace", type=NON_NEGATIVE, default=20.0, metavar="SECONDS", help="time for running episodes to end (default 20)"
)
@click.option("--results", type=PATH, default=Path("results"), help="folder of answers (default ./results)")
@click.option("--skip-if-exists", is_flag=True, help="return stored answers to repeated requests")
@click.option("--run-golden", is_flag=True, help="grade the reference fix instead of asking the model")
@click.option("--model-name", help="model name in answers and results (default: the tokenizer folder's name)")
@click.option("--job", default="swerl-serve", help="job label of created objects")
@click.option("--engine", type=HTTP_URL, help="SGLang server or router, for requests that name none")
@click.option("--allow-engine", type=HTTP_URL, multiple=True, help="further server that requests may name")
@click.option("--tokenizer", required=True, type=PATH, help="tokenizer folder of the served model")
@agent_options(agents=[BUILTIN], spec=DEFAULTS)
@script_option
@rewrite_option
@pod_options
@sandbox_options
@grading_options("grading-", timeout=1800)
@cluster_options
@log_option
@keeps("answers so far are in the folder of --results")
async def command(options: Options) -> int:
    """Serve until a signal; 0. Raises LeaseLost when the sandboxes could not be held."""
    from swerl_agent.server import GoldPatchRunner, ModelRunner, serve  # needs packages that other commands do not

    configure_log(options, job=options.job)
    access = _access(options)
    spec = agent_spec(options)
    protocol = agent_protocol(spec)
    prompts = Prompts.of(protocol, prompts_text(options))
    tokenizer = with_template_options(HFTokenizer(options.tokenizer, tools=protocol.tools), spec)
    defaults = _defaults(options)
    grading = grading_settings(options, "grading_", jobs=options.concurrency)
    sandbox = sandbox_settings(options).model_copy(update={"max_concurrent": options.concurrency})
    async with open_client(options) as client, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:
        namespace = options.namespace or client.namespace
        async with open_sample_runner(
            client, namespace, grading, sandbox, job=options.job, kubeconfig=options.kubeconfig
        ) as samples:
            model = ModelRunner(samples, http, tokenizer, prompts, spec, folder=options.tokenizer)
            server = _server(
                options, GoldPatchRunner(samples.grader) if options.run_golden else model, defaults, access
            )
            stop, listening = _stopped(samples), lambda url: announce(options, f"serving at {url}")
            await serve(server, options.host, options.port, stop=stop, grace=options.grace, on_listening=listening)
            if samples.lost.done():
                samples.lost.result()
    return 0


def _access(options: Options) -> ServerAccess:
    """Raises UsageError for an unusable token, and where anyone could use the port without --no-token."""
    from swerl_agent.server import ServerAccess

    if options.token_file is not None and options.no_token:
        raise click.UsageError("--token-file and --no-token exclude each other")
    if options.token_file is not None:
        return ServerAccess(_read_token(options.token_file))
    if options.host in LOOPBACK:
        return ServerAccess()
    if options.no_token:
        return ServerAccess(hosts=None)
    raise click.UsageError(
        f"--host {options.host} without a token: all clients that reach the port could create Pods; give --token-file,"
        " or --no-token if only the trainer reaches it"
    )


def _read_token(file: Path) -> str:
    try:
        token = file.read_text().strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--token-file {file} cannot be read: {error}") from error
    if not token:
        raise click.UsageError(f"--token-file {file} is empty; write a token into it")
    return token


def _server(options: Options, runner: RequestRunner, defaults: RequestDefaults, access: ServerAccess) -> AgentServer:
    from swerl_agent.server import AgentServer, AnswerStore, read_request

    name = "golden" if options.run_golden else options.model_name or options.tokenizer.resolve().name
    return AgentServer(
        runner,
        partial(read_request, defaults=defaults),
        AnswerStore(options.results, name),
        model=name,
        concurrency=options.concurrency,
        skip_if_exists=options.skip_if_exists,
        access=access,
    )


def _defaults(options: Options) -> RequestDefaults:
    from swerl_agent.server import RequestDefaults

    import_request = ImportRequest(
        purpose="evaluation",
        scripts=eval_scripts(options),
        registry_rewrite=options.registry_rewrite,
    )
    return RequestDefaults(
        options.engine,
        tuple(filter(None, [options.engine, *options.allow_engine])),
        engine_needed=not options.run_golden,
        temperature=options.temperature,
        import_request=import_request,
    )


def _stopped(samples: SampleRunner) -> asyncio.Event:
    """Set by SIGTERM, by SIGINT, and when the sandboxes cannot be held any longer."""
    stop, loop = stop_event(), asyncio.get_running_loop()
    samples.lost.add_done_callback(lambda _: loop.call_soon_threadsafe(stop.set))
    return stop
