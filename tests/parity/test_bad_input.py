"""What `check` and `run` refuse, and functions that give nothing to compare."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rtx_jax import parity
from rtx_jax.errors import InvalidArgument

X = np.ones(3, np.float32)


@pytest.mark.parametrize("result", [None, "text", object(), (None,), np.asarray(["a"])])
def test_a_function_that_returns_no_array_does_not_pass(result: object) -> None:
    report = parity.check(lambda x: result, X, modes=["eager"])
    assert not report.passed
    assert [outcome.status for outcome in report.outcomes] == ["error"]


@pytest.mark.parametrize("result", [np.float32(2), np.ones(2, np.float32)])
def test_a_function_may_return_what_numpy_has(result: object) -> None:
    assert parity.check(lambda x: {"a": x, "b": [result]}, X, modes=["eager"]).passed


@pytest.mark.parametrize(
    "call",
    [
        lambda: parity.check(3, X),  # type: ignore[arg-type]
        lambda: parity.check(lambda x: x, X, max_ulp=-1.0),
        lambda: parity.check(lambda x: x, X, max_ulp=float("nan")),
        lambda: parity.run(operations=["exp"], timeout_s=-1.0, isolate=True),
        lambda: parity.run(operations=["exp"], timeout_s="10"),  # type: ignore[arg-type]
    ],
)
def test_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        call()
