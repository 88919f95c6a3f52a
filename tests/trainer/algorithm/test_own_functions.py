"""Functions of the user's own are found, and their faults are named."""

from __future__ import annotations

import pytest
from swerl_api.algorithm import AlgorithmSpec
from swerl_trainer.algorithm import AlgorithmError
from swerl_trainer.algorithm.own_functions import check_own_functions, own_function


def test_function_is_found_by_its_path() -> None:
    assert own_function("reward", "math.sqrt")(4) == 2


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_package.loss", "algorithm.loss: cannot import no_such_package.loss.*install"),
        ("math.no_such_function", "math.no_such_function.*no attribute"),
        ("math.pi", "math.pi is a float, not a function"),
    ],
)
def test_path_that_names_no_function_is_refused(path: str, message: str) -> None:
    with pytest.raises(AlgorithmError, match=message):
        check_own_functions(AlgorithmSpec(loss=path))
