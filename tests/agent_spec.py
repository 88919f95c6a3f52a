"""Agents' limits for tests."""

from __future__ import annotations

from typing import Any

from swerl_api import AgentSpec, JudgeSpec, SourceSpec
from swerl_api.source import VolumeClaimSource


def agent_spec(**fields: Any) -> AgentSpec:
    """An AgentSpec with a large window; `fields` are not validated, so that times may be fractions."""
    return AgentSpec(context_tokens=100_000).model_copy(update=fields)


def judge_spec(**fields: Any) -> JudgeSpec:
    """A JudgeSpec with these fields, not validated."""
    return JudgeSpec(model=SourceSpec(persistent_volume_claim=VolumeClaimSource(claim_name="judge"))).model_copy(
        update=fields
    )
