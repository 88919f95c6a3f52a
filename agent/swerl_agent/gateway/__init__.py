"""Agents that know nothing of tokens: an OpenAI-compatible endpoint per episode that records what training needs.

Guarantees: an agent's requests are answered by the policy, and its samples are the tokens as they were read and
sampled, with their log-probs and weight versions; the agent is not changed.
"""

from .application import Endpoint, Gateway
from .black_box import BlackBoxAgent, Ending, Shell, run_black_box
from .recording import Recording

__all__ = ["BlackBoxAgent", "Ending", "Endpoint", "Gateway", "Recording", "Shell", "run_black_box"]
