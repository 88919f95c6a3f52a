"""Episodes: an agent at work on one task, token-in/token-out.

Guarantees: an episode reports the tokens that the engine read and sampled, never retokenized text; chat completions
yield none. Infrastructure failures end an episode and are never shown to the model. Every episode is reported
whole, whatever ended it.
"""

from .artifacts import artifact_prefix, write_artifacts, written_on_exit
from .baseline import NoRepository
from .chat import ChatCompletions, Completion, ContextFull
from .chat_conversation import CountedWindow
from .command_runner import CommandRunner
from .context import max_input_tokens
from .engine import (
    RETRY_POLICY,
    EndpointError,
    Engine,
    EngineError,
    Generation,
    RetryPolicy,
    SGLangEngine,
    api_key_headers,
)
from .episode import INFRASTRUCTURE_ERROR, PROMPT_FAILED, SANDBOX_DESTROYED, Episode
from .graded_episode import Agent, GradedEpisode, has_patch, run_graded_episode
from .loop import BuiltinAgent, ChatAgent
from .metrics import agent_metrics, repeats_itself, time_metrics
from .model_kwargs import SamplingFields, request_fields, with_template_options
from .parsing import find_actions, is_valid_patch, submission
from .prompts import PromptError, Prompts
from .protocol import PROTOCOLS, AgentProtocol, agent_protocol
from .proxy import environment_proxy
from .request import EpisodeRequest, StepScoring
from .retokenization import RetokenizationError, answer_tokens, cut_answers, retokenize
from .served import check_served
from .token_segment import TokenSegment, training_segments
from .tokenizer_folder import TokenizerError
from .tokens import HFTokenizer, Tokenizer

__all__ = [
    "INFRASTRUCTURE_ERROR",
    "PROMPT_FAILED",
    "PROTOCOLS",
    "RETRY_POLICY",
    "SANDBOX_DESTROYED",
    "Agent",
    "AgentProtocol",
    "BuiltinAgent",
    "ChatAgent",
    "ChatCompletions",
    "CommandRunner",
    "Completion",
    "ContextFull",
    "CountedWindow",
    "EndpointError",
    "Engine",
    "EngineError",
    "Episode",
    "EpisodeRequest",
    "Generation",
    "GradedEpisode",
    "HFTokenizer",
    "NoRepository",
    "PromptError",
    "Prompts",
    "RetokenizationError",
    "RetryPolicy",
    "SGLangEngine",
    "SamplingFields",
    "StepScoring",
    "TokenSegment",
    "Tokenizer",
    "TokenizerError",
    "agent_metrics",
    "agent_protocol",
    "answer_tokens",
    "api_key_headers",
    "artifact_prefix",
    "check_served",
    "cut_answers",
    "environment_proxy",
    "find_actions",
    "has_patch",
    "is_valid_patch",
    "max_input_tokens",
    "repeats_itself",
    "request_fields",
    "retokenize",
    "run_graded_episode",
    "submission",
    "time_metrics",
    "training_segments",
    "with_template_options",
    "write_artifacts",
    "written_on_exit",
]
