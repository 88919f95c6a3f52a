"""Agents without token access: an OpenAI-compatible endpoint per episode that records the data for training.

Guarantees: the policy answers an agent's requests. A `Gateway` records the tokens as they were read and sampled, with
log-probs and weight versions; a `Relay` to a chat completions server records no tokens. The agent is unmodified.
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
