"""Operands of quantization that are of another type."""

from __future__ import annotations

import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.errors import InvalidArgument
from rtx_jax.quant import QuantScheme, dequantize, quantize


def test_another_type() -> None:
    x = xp.ones((2, 2), dtype=xp.float32)
    with pytest.raises(InvalidArgument, match="QuantScheme"):
        quantize(x, "int8")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="Quantize it first"):
        dequantize(x)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument):
        quantize(x, QuantScheme("int8"), calibration=np.asarray([1, 2]))  # type: ignore[arg-type]
    for parameters in ({"scale_dtype": np.asarray([1, 2])}, {"store": np.asarray([1, 2])}, {"symmetric": 1}):
        with pytest.raises(InvalidArgument):
            QuantScheme("int8", **parameters)  # type: ignore[arg-type]
