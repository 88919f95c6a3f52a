"""A container whose first program the kernel refuses, as it does with one of another architecture."""

from __future__ import annotations

from typing import Any

from swerl_agent.sandbox import ForeignArchitecture
from swerl_agent.sandbox.pod import loss_error
from swerl_kube import KubeClient

from .conftest import manifest, until

Json = dict[str, Any]
ELF_HEADER = "f0VMRgIBAQA="  # of a program, and nothing after it


async def test_program_that_the_kernel_refuses_is_a_typed_loss(client: KubeClient, namespace: str) -> None:
    program = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "program"},
        "binaryData": {"sh": ELF_HEADER},
    }
    await client.create("configmaps", program, namespace=namespace)
    body = manifest(
        "swesb-foreign-0",
        volumes=[{"name": "program", "configMap": {"name": "program", "defaultMode": 0o755}}],
        command=["/program/sh", "-c", "sleep 600"],
        volumeMounts=[{"name": "program", "mountPath": "/program"}],
        terminationMessagePolicy="FallbackToLogsOnError",
    )
    uid = (await client.create("pods", body, namespace=namespace))["metadata"]["uid"]

    async def lost() -> Exception | None:
        return loss_error(await client.get("v1", "pods", namespace, "swesb-foreign-0"), uid)

    error = await until(lost, "the Pod has ended")
    assert type(error) is ForeignArchitecture
    assert "/program/sh: exec format error" in str(error) and "kubernetes.io/arch" in str(error)
