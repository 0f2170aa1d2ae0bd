"""Every 8-bit and bfloat16 number is widened exactly."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest

from rtx_jax.kernels.decode import narrow


@pytest.mark.parametrize("slices", [True, False])
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "bfloat16"])
def test_every_number_is_widened_exactly(name: str, slices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(narrow, "SLICES_BFLOAT16", slices)
    dtype = np.dtype(getattr(ml_dtypes, name))
    bits = np.arange(1 << 8 * dtype.itemsize, dtype=f"uint{8 * dtype.itemsize}")
    if name == "bfloat16":
        # Its subnormal numbers are those of float32, which XLA takes for 0; and one NaN is as good as another.
        bits = bits[((bits & 0x7F80) != 0) & ((bits & 0x7FFF) <= 0x7F80) | ((bits & 0x7FFF) == 0)]
    kept = bits.view(dtype)
    got = jax.jit(lambda x: narrow.widen(narrow.sliceable(x), dtype).astype(np.float32))(kept)
    np.testing.assert_array_equal(got, kept.astype(np.float32))
