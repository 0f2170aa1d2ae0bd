"""Attention by cuDNN, compiled for an H200."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
import pytest

from rtx_jax.kernels.attention import cudnn
from rtx_jax.kernels.attention.spec import AttentionSpec
from rtx_jax.kernels.target import Target
from tests.aot.targets import h200
from tests.aot.test_triton import TRITON, backward_of, forward_of

HOPPER = Target("cuda", "NVIDIA H200", (9, 0))
BASE = AttentionSpec(2, 512, 512, 4, 2, 64, 64, jnp.dtype("bfloat16"), scale=0.125, window=(None, 0))
MORE: dict[str, dict[str, Any]] = {
    "full, other layout": {"window": (None, None), "layout": "BNTH"},
    "window": {"window": (100, 0)},
    "more keys": {"keys": 1024},
    "value size": {"value_size": 128},
    "mask": {"mask": (1, 1, 512, 512)},
    "mask and bias": {"mask": (1, 1, 1, 512), "bias": (2, 1, 512, 512), "bias_dtype": BASE.dtype},
    "lengths": {"query_lengths": True, "key_lengths": True, "window": (None, None)},
    "head size": {"size": 256, "value_size": 256, "dtype": jnp.dtype("float16")},
}


def assert_compiles(spec: AttentionSpec) -> None:
    assert cudnn.unsupported(spec, HOPPER) == []
    call = "ScaleBiasSoftmax" if spec.mask is not None or spec.bias is not None else "Softmax"
    function, arguments = forward_of(spec, cudnn)
    assert h200().compile(function, *arguments).kernels == (f"__cudnn$fmha{call}",)
    function, arguments = backward_of(spec, cudnn)
    # Where the log-sum-exp has a cotangent, Triton's kernels run.
    assert set(h200().compile(function, *arguments).kernels) == {f"__cudnn$fmha{call}Backward", TRITON}


def test_forward_and_backward() -> None:
    assert_compiles(BASE)


@pytest.mark.slow
@pytest.mark.parametrize("name", MORE)
def test_features(name: str) -> None:
    assert_compiles(dataclasses.replace(BASE, **MORE[name]))


def test_no_cotangent_of_the_statistic_leaves_no_other_kernel() -> None:
    function, arguments = backward_of(BASE, cudnn)
    operands, out, lse, d_out, _ = arguments

    def plain(*given: Any) -> object:
        return function(*given, jnp.zeros(lse.shape, lse.dtype))  # type: ignore[attr-defined]

    program = h200().compile(plain, operands, out, lse, d_out)
    assert program.kernels == ("__cudnn$fmhaSoftmaxBackward",)
