"""Every backend does the same: one table of cases on the devices, eager and compiled, on the reference, on a toy."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np
import pytest

from rtx_jax.backend import Backend, CpuBackend, NumpyBackend, Wrapper
from rtx_jax.errors import HostFallback
from tests.backend.cases import CASES, Case
from tests.backend.toy import ToyBackend

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [np.dtype(np.float32), np.dtype(np.float16), BFLOAT16, np.dtype(np.float64)]
# Each dtype compiles every case anew.
COMPILED_DTYPES = [*DTYPES[:1], pytest.param(DTYPES[1], marks=pytest.mark.slow), BFLOAT16]
COMPILED_DTYPES.append(pytest.param(DTYPES[3], marks=pytest.mark.slow))
by_id = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def rounded(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        return x if x.dtype.kind in "iub" else x.astype(dtype)


def check(case: Case, got: np.ndarray, operands: list[np.ndarray], dtype: np.dtype, slack: float = 1.0) -> None:
    """Compare with the formula in float64 on the rounded operands, in units of the dtype's spacing."""
    assert got.dtype == dtype
    want = np.asarray(case.expected(*(x if x.dtype.kind in "iub" else x.astype(np.float64) for x in operands)))
    assert got.shape == want.shape
    info = ml_dtypes.finfo(dtype)
    with np.errstate(all="ignore"):
        nearest, got64 = want.astype(dtype).astype(np.float64), got.astype(np.float64)
        exact = (nearest == got64) | (np.isnan(nearest) & np.isnan(got64))
        # Devices may flush subnormal numbers.
        size = np.maximum(np.abs(np.where(np.isfinite(want), want, 0)), max(case.scale, float(info.tiny)))
        near = np.abs(got64 - want) <= (case.ulp * slack + 0.5) * size * float(info.eps)
    assert (exact | near).all(), (got, want)


def run(case: Case, B: Backend, dtype: np.dtype, call: Callable[..., object] | None = None) -> tuple:
    operands = [rounded(x, dtype) for x in case.operands]
    tensors = [B.from_data(x, x.shape) for x in operands]
    result = call(*tensors) if call else case.call(B, *tensors)
    return B.to_data(result).reshape(B.shape(result)), operands


@pytest.mark.parametrize("dtype", COMPILED_DTYPES, ids=lambda dtype: dtype.name)
@by_id
def test_cpu(case: Case, dtype: np.dtype) -> None:
    got, operands = run(case, CpuBackend(), dtype)
    check(case, got, operands, dtype)


@by_id
def test_cpu_compiled(case: Case) -> None:
    B = CpuBackend()
    got, operands = run(case, B, DTYPES[0], jax.jit(lambda *xs: case.call(B, *xs)))
    check(case, got, operands, DTYPES[0])


class Plain(Wrapper[jax.Array]):
    """A wrapper that changes nothing."""


@by_id
def test_wrapped(case: Case) -> None:
    B = Plain(Plain(CpuBackend()))
    got, operands = run(case, B, DTYPES[0])
    check(case, got, operands, DTYPES[0])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@by_id
def test_reference(case: Case, dtype: np.dtype) -> None:
    got, operands = run(case, NumpyBackend(), dtype)
    check(case, got, operands, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.name)
@by_id
def test_toy(case: Case, dtype: np.dtype) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HostFallback)
        got, operands = run(case, ToyBackend(), dtype)
    # Bodies made of primitives round at each of them.
    check(case, got, operands, dtype, slack=4)
