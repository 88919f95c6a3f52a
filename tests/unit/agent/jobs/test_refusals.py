"""What the API server says about a job becomes faults with field, value and rule."""

from __future__ import annotations

import pytest
from swerl_agent.jobs.validation import refusals

HEAD = 'SweRLJob.swerl.dev "q" is invalid: '
JOB = {
    "metadata": {"name": "q"},
    "spec": {
        "algorithm": {"clipLow": 0.4, "correction": {"low": 3}},
        "sandbox": {"resources": {"limits": {"cpu": "lots"}}, "registryRewrite": [{"replacement": 7}]},
    },
}
CLIP = "algorithm.clipLow must not exceed algorithm.clipHigh"
NOT_CHECKED = (
    '<nil>: Invalid value: "null": some validation rules were not checked because the object was invalid; correct the'
    " existing errors to complete validation"
)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            f"{HEAD}spec.algorithm.clipLow: Invalid value: 0.4: {CLIP}",
            [("spec.algorithm.clipLow", "0.4", CLIP)],
        ),
        (
            f"{HEAD}[spec.algorithm.clipLow: Invalid value: 0.4: {CLIP}, spec.algorithm.correction.low: Invalid value:"
            f" 3: a rule, with a comma: and a colon, {NOT_CHECKED}]",
            [
                ("spec.algorithm.clipLow", "0.4", CLIP),
                ("spec.algorithm.correction.low", "3", "a rule, with a comma: and a colon"),
            ],
        ),
        (
            f'{HEAD}spec.model.source: Invalid value: "object": give exactly one of persistentVolumeClaim, configMap',
            [("spec.model.source", "", "give exactly one of persistentVolumeClaim, configMap")],
        ),
        (
            f'{HEAD}[spec.sandbox.resources.limits.cpu: Invalid value: "lots": spec.sandbox.resources.limits.cpu in'
            f" body should match '^([0-9]+)$', {NOT_CHECKED}]",
            [
                (
                    "spec.sandbox.resources.limits.cpu",
                    '"lots"',
                    "spec.sandbox.resources.limits.cpu in body should match '^([0-9]+)$'",
                )
            ],
        ),
        (
            f"{HEAD}[spec.trainer.image: Required value, spec.sandbox.registryRewrite[0].replacement: Invalid value:"
            ' "integer": replacement in body must be of type string: "integer"]',
            [
                ("spec.trainer.image", "", "a value is required"),
                (
                    "spec.sandbox.registryRewrite[0].replacement",
                    "7",
                    'replacement in body must be of type string: "integer"',
                ),
            ],
        ),
        (
            f'{HEAD}spec.algorithm.name: Unsupported value: "ppo": supported values: "grpo", "gspo"',
            [("spec.algorithm.name", "", 'supported values: "grpo", "gspo"')],
        ),
        (
            'SweRLJob in version "v1alpha1" cannot be handled as a SweRLJob: strict decoding error: unknown field'
            ' "spec.a", unknown field "spec.b"',
            [("spec.a", "", "leave it out"), ("spec.b", "", "leave it out")],
        ),
        ("an admission webhook says no", [("spec", "", "an admission webhook says no")]),
    ],
)  # fmt: skip
def test_message_becomes_faults(message: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(fault.field, fault.value, fault.remedy) for fault in refusals(message, JOB)] == expected
