"""Agents that know nothing of tokens: an OpenAI-compatible endpoint per episode that records what training needs.

Guarantees: an agent's requests are answered by the policy, and its samples are the tokens as they were read and
sampled, with their log-probs and weight versions (`Gateway`); before a server that is spoken to in messages, there are
none (`Relay`). The agent is not changed.
"""

from .application import Endpoint, Endpoints, Gateway, Relay
from .black_box import AgentExit, AgentShell, BlackBoxAgent, BlackBoxRequest, run_black_box
from .recording import Recording

__all__ = [
    "AgentExit",
    "AgentShell",
    "BlackBoxAgent",
    "BlackBoxRequest",
    "Endpoint",
    "Endpoints",
    "Gateway",
    "Recording",
    "Relay",
    "run_black_box",
]
