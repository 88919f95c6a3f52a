"""SweRLJobs that come by their samples in other ways: the agent of others, tokens encoded from the text."""

from __future__ import annotations

from tests.e2e.product_namespace import ProductNamespace

MINI_SWE_AGENT = """
agent:
  system_template: >-
    You are a software engineer in a shell. Answer with one bash block: read the function, edit it, submit.
  instance_template: "Fix this issue.\\n{{ task | trim }}"
model:
  action_regex: "```bash\\\\s*\\\\n(.*?)\\\\n```"
  format_error_template: "Give exactly one bash block with one command."
  observation_template: "<returncode>{{ output.returncode }}</returncode>\\n<output>\\n{{ output.output }}</output>"
"""


def test_external_agent_is_trained_on_its_sampled_tokens(product_namespace: ProductNamespace) -> None:
    metadata = {"name": "mini-swe-agent", "namespace": product_namespace.namespace}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": MINI_SWE_AGENT}}
    product_namespace.cluster.apply(config)
    job = product_namespace.manifest("mini-swe-agent", {"steps": 1, "promptsPerStep": 2, "groupSize": 4})
    job["spec"]["agent"] |= {"kind": "mini-swe-agent", "protocol": "mini-swe-agent-2"}
    job["spec"]["agent"]["promptTemplates"] = {"configMap": {"name": "mini-swe-agent", "key": "config.yaml"}}
    product_namespace.finish(product_namespace.apply(job), 600)
    (step,) = product_namespace.rows()
    assert step["train/train_rollout_logprob_abs_diff_max"] <= 1e-4
    assert step["agent/exit_status/submitted"] > 0
    assert step["train/trainable_tokens"] > 0


def test_job_can_train_on_retokenized_text(product_namespace: ProductNamespace) -> None:
    job = product_namespace.manifest("text", {"steps": 1, "promptsPerStep": 2, "groupSize": 4, "encoding": "text"})
    product_namespace.finish(product_namespace.apply(job), 600)
    (step,) = product_namespace.rows()
    assert "train/train_rollout_logprob_abs_diff_max" not in step, "the text knows no log-probabilities"
    assert step["train/trainable_tokens"] > 0
