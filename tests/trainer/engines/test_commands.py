"""The command lines of engines and router, as pure functions of their settings."""

from __future__ import annotations

from dataclasses import replace

import pytest
from swerl_api import LoraSpec, RouterSpec
from swerl_kube.logs import LogSettings
from swerl_plan import SHARED_FRACTION
from swerl_trainer.engines.api_key import key_arguments
from swerl_trainer.engines.cpu import unused_architectures
from swerl_trainer.engines.links import update_backend
from swerl_trainer.engines.router import RouterSettings, router_command
from swerl_trainer.engines.server import (
    ServerSettings,
    server_arguments,
    server_command,
    server_environment,
)

ON_CPU = ServerSettings(model="/m", dtype="float32", gpus=0, context_tokens=4096)
ON_GPUS = replace(ON_CPU, dtype="bfloat16", gpus=4)


def test_cpu_server_forks_and_uses_plain_torch() -> None:
    command = server_command(ON_CPU, "127.0.0.1", 3)
    assert "swerl_trainer.engines.cpu" in command
    assert command[command.index("--attention-backend") + 1] == "torch_native"
    assert "--sleep-on-idle" in command
    assert "--enable-memory-saver" not in command


def test_gpu_server_has_no_cpu_option() -> None:
    settings = replace(ON_GPUS, share_gpu=True)
    command = server_command(settings, "10.0.0.1", 3)
    assert "swerl_trainer.engines.gpu" in command
    assert command[command.index("--tp-size") + 1] == "4"
    assert "--enable-memory-saver" in command
    assert command[command.index("--mem-fraction-static") + 1] == str(SHARED_FRACTION)
    assert "--device" not in command
    assert "SGLANG_USE_CPU_ENGINE" not in server_environment(settings)


def test_server_whose_weights_the_trainer_replaces_reads_none() -> None:
    command = server_command(replace(ON_GPUS, reads_model=False), "10.0.0.1", 3)
    assert command[command.index("--load-format") + 1] == "dummy"
    assert "--load-format" not in server_command(ON_GPUS, "10.0.0.1", 3)


def test_idle_connection_outlasts_a_training_step() -> None:
    assert float(server_environment(ON_CPU)["SGLANG_TIMEOUT_KEEP_ALIVE"]) >= 1800


def test_gpu_server_of_its_own_keeps_its_memory() -> None:
    command = server_command(ON_GPUS, "10.0.0.1", 3)
    assert "--enable-memory-saver" not in command
    assert "--mem-fraction-static" not in command


def test_server_that_gets_adapters_has_room_for_them() -> None:
    lora = LoraSpec(rank=8, targets=["q_proj", "o_proj"], update="adapter")
    command = server_command(replace(ON_CPU, lora=lora), "127.0.0.1", 3)
    first = command.index("--lora-target-modules")
    assert command[first + 1 : first + 4] == ["q_proj", "o_proj", "--max-loras-per-batch"]
    assert command[command.index("--max-lora-rank") + 1] == "8"
    assert command[command.index("--lora-backend") + 1] == "torch_native"
    assert "--lora-backend" not in server_command(replace(ON_GPUS, lora=lora), "127.0.0.1", 3)
    assert "--enable-lora" not in server_command(ON_CPU, "127.0.0.1", 3)


def test_users_arguments_win() -> None:
    settings = replace(ON_CPU, arguments={"max-total-tokens": 7, "sleep-on-idle": False})
    assert server_arguments(settings)["max-total-tokens"] == 7
    assert "--sleep-on-idle" not in server_command(settings, "127.0.0.1", 3)


@pytest.mark.parametrize("name", ["ep-size", "ep_size", "expert-parallel-size", "ep"])
def test_division_of_experts_is_that_of_the_arguments(name: str) -> None:
    assert (ON_GPUS.expert_ranks, replace(ON_GPUS, arguments={name: 4}).expert_ranks) == (1, 4)


def test_engines_have_metrics_unless_the_user_turns_them_off() -> None:
    for settings in (ON_CPU, ON_GPUS):
        assert "--enable-metrics" in server_command(settings, "127.0.0.1", 3)
    for name in ("enable-metrics", "enable_metrics"):
        command = server_command(replace(ON_CPU, arguments={name: False}), "127.0.0.1", 3)
        assert not any("metrics" in word for word in command)


def test_router_flags_may_be_bare() -> None:
    command = router_command(
        RouterSettings(
            "127.0.0.1", 1, 2, RouterSpec(policy="random", args={"disable-retries": "", "log-level": "info"})
        )
    )
    assert "--disable-retries" in command
    assert command[command.index("--log-level") + 1] == "info"
    assert command[command.index("--policy") + 1] == "random"


def test_router_writes_json_lines_for_a_job_that_asks_for_them() -> None:
    settings = RouterSettings("127.0.0.1", 1, 2)
    assert "--log-json" in router_command(replace(settings, log=LogSettings("json")))
    assert "--log-json" not in router_command(settings)


def test_key_is_in_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWERL_API_KEY", "secret-key")
    commands = [server_command(settings, "127.0.0.1", 3) for settings in (ON_CPU, ON_GPUS)]
    commands.append(router_command(RouterSettings("127.0.0.1", 1, 2, api_key="secret-key")))
    assert all("secret-key" not in " ".join(command) for command in commands)
    assert key_arguments() == ["--api-key", "secret-key"], "which each process adds for itself"


def test_way_of_weights_follows_from_the_server_and_the_spec() -> None:
    assert update_backend(ON_CPU) == "gloo"
    assert update_backend(replace(ON_GPUS, share_gpu=True)) == "ipc"
    assert update_backend(ON_GPUS) == "nccl"
    assert update_backend(ON_GPUS, "disk") == "disk"
    assert update_backend(replace(ON_GPUS, lora=LoraSpec()), "direct") == "adapter"


def test_only_the_models_family_is_imported() -> None:
    unused = unused_architectures("qwen3").split(",")
    assert "qwen3" not in unused
    assert "qwen2" not in unused
    assert "llama" in unused
    assert unused_architectures("no-such-model") == ""
