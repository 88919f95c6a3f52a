"""A SweRLJob over several Pods: two ranks in each trainer Pod, engines in Pods of their own."""

from __future__ import annotations

import pytest

from tests.e2e.over_pods import train_over_pods
from tests.e2e.product_namespace import ProductNamespace


@pytest.mark.timeout(1500)
def test_four_ranks_and_two_engines_train_over_pods_and_resume_in_another_layout(
    product_namespace: ProductNamespace,
) -> None:
    """Tensor x pipeline at first, tensor x data after the resumption; stages and copies are in different Pods."""
    first = {"tensorParallel": 2, "pipelineParallel": 2}
    steps = train_over_pods(product_namespace, "pods", ranks_of_pod=2, first=first, resumed={"pipelineParallel": 1})
    assert [row["step"] for row in steps] == [1, 2]
