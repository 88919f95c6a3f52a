"""Episodes: one attempt of the model at one task, token-in/token-out.

Guarantees: the tokens an episode reports are those the engine read and sampled, never re-encoded text, and none where a
server was spoken to in messages; infrastructure failures end an episode and are never shown to the model; whatever
ended it, the episode is reported whole.
"""

from .artifacts import artifact_prefix, unwritten, write_artifacts
from .chat import ChatCompletions, Completion, ContextFull
from .chat_conversation import CountedWindow
from .context import Budget
from .engine import EndpointError, Engine, EngineError, Generation, SGLangEngine
from .episode import PROMPT_FAILED, AgentLimits, Episode
from .loop import BuiltinAgent, ChatAgent, run_episode
from .metrics import agent_metrics, repeats_itself, time_metrics
from .parsing import find_actions, is_valid_patch, submission
from .prompts import PromptError, Prompts
from .protocol import PROTOCOLS, AgentProtocol
from .proxy import environment_proxy
from .retokenization import RetokenizationError, answer_tokens, retokenize
from .run import Agent, StepScoring
from .served import check_served
from .token_segment import TokenSegment, training_segments
from .tokenizer_folder import TokenizerError
from .tokens import HFTokenizer, Tokenizer

__all__ = [
    "PROMPT_FAILED",
    "PROTOCOLS",
    "Agent",
    "AgentLimits",
    "AgentProtocol",
    "Budget",
    "BuiltinAgent",
    "ChatAgent",
    "ChatCompletions",
    "Completion",
    "ContextFull",
    "CountedWindow",
    "EndpointError",
    "Engine",
    "EngineError",
    "Episode",
    "Generation",
    "HFTokenizer",
    "PromptError",
    "Prompts",
    "RetokenizationError",
    "SGLangEngine",
    "StepScoring",
    "TokenSegment",
    "Tokenizer",
    "TokenizerError",
    "agent_metrics",
    "answer_tokens",
    "artifact_prefix",
    "check_served",
    "environment_proxy",
    "find_actions",
    "is_valid_patch",
    "repeats_itself",
    "retokenize",
    "run_episode",
    "submission",
    "time_metrics",
    "training_segments",
    "unwritten",
    "write_artifacts",
]
