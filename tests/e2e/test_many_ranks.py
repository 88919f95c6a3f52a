"""A SweRLJob with eight ranks over two Pods, a part of the soak: eight processes of Megatron need 10 GiB of memory."""

from __future__ import annotations

import pytest

from tests.e2e.over_pods import train_over_pods
from tests.e2e.product_namespace import ProductNamespace


@pytest.mark.timeout(2700)
def test_eight_ranks_and_two_engines_train_over_pods_and_resume_in_another_layout(
    product_namespace: ProductNamespace,
) -> None:
    """Tensor x pipeline x data at first, tensor x context x data after the resumption: at first stages are in different
    Pods, then copies."""
    first = {"tensorParallel": 2, "pipelineParallel": 2}
    resumed = {"pipelineParallel": 1, "contextParallel": 2}
    steps = train_over_pods(product_namespace, "many-ranks", ranks_of_pod=4, first=first, resumed=resumed, seconds=1200)
    assert [row["step"] for row in steps] == [1, 2]
