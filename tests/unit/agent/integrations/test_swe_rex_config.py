"""How SWE-ReX's configuration finds our deployment."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError
from swerex.deployment.config import DaytonaDeploymentConfig, DeploymentConfig, DockerDeploymentConfig
from swerl_agent.integrations.swe_rex import SandboxDeployment, SandboxDeploymentConfig

UNION: TypeAdapter[object] = TypeAdapter(DeploymentConfig | SandboxDeploymentConfig)


def test_type_selects_the_deployment() -> None:
    config = UNION.validate_python({"type": "swerl", "image": "python:3.12"})
    assert isinstance(config, SandboxDeploymentConfig)
    assert isinstance(config.get_deployment(), SandboxDeployment)


def test_other_types_are_unaffected() -> None:
    docker = UNION.validate_python({"type": "docker", "image": "python:3.12"})
    assert isinstance(docker, DockerDeploymentConfig)
    assert isinstance(UNION.validate_python({"api_key": "key", "target": "eu"}), DaytonaDeploymentConfig)


def test_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="imagee"):
        SandboxDeployment(imagee="python:3.12")
