"""Windows and offsets of any size see what whole numbers of any size would see."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rtx_jax as xp
from rtx_jax import nn
from rtx_jax.errors import InvalidArgument
from rtx_jax.kernels import decode_attention, flash_attention
from rtx_jax.kernels.distances import FAR, Distances

T, S = 3, 7


def seen(left: int | None, right: int | None, offset: int) -> np.ndarray:
    """The formula, on Python's integers."""
    return np.array(
        [
            [(left is None or s >= t + offset - left) and (right is None or s <= t + offset + right) for s in range(S)]
            for t in range(T)
        ]
    )


ENDS = [0, 5, FAR, 2**31, 2**40]
SIDES = st.none() | st.builds(lambda end, near: max(end + near, 0), st.sampled_from(ENDS), st.integers(-12, 12))
OFFSETS = st.builds(
    lambda end, near: end + near, st.sampled_from([*ENDS, *(-end for end in ENDS)]), st.integers(-12, 12)
)


@settings(deadline=None)
@given(left=SIDES, right=SIDES, offset=OFFSETS, dtype=st.sampled_from(["int8", "int32", "uint32", "int64", "uint64"]))
def test_every_key_that_is_seen(left: int | None, right: int | None, offset: int, dtype: str) -> None:
    info = np.iinfo(dtype)
    offset = min(max(offset, info.min), info.max)
    distances = Distances(left, right, T, S)
    with jax.enable_x64(True):
        near = distances.offset(jnp.asarray(offset, dtype))
    assert near.dtype == np.int32
    for number in (*distances.sides, int(near)):
        assert number is None or abs(number) <= 2 * FAR
    np.testing.assert_array_equal(seen(*distances.sides, int(near)), seen(left, right, offset))


@pytest.mark.parametrize(
    ("window", "offset"), [((2**30 + 3, 0), 2**30), ((1, 2**30 + 2), -(2**30)), ((2**31, 2**31 - 2), 2**31 - 3)]
)
def test_far_windows_of_attention(window: tuple[int, int], offset: int) -> None:
    rng = np.random.default_rng(0)
    shapes = (1, T, 2, 4), (1, S, 2, 4), (1, S, 2, 4)
    operands = [jnp.asarray(rng.standard_normal(shape), jnp.float32) for shape in shapes]
    want = flash_attention(*operands, mask=jnp.asarray(seen(*window, offset)))
    near = {"rtol": 1e-6, "atol": 1e-6}
    positions = jnp.asarray([offset], jnp.int32)
    np.testing.assert_allclose(flash_attention(*operands, window=window, q_offset=positions), want, **near)
    np.testing.assert_allclose(flash_attention(*operands, window=window, q_offset=offset), want, **near)
    np.testing.assert_allclose(decode_attention(*operands, window=window, q_offset=offset, causal=False), want, **near)
    arrays = [xp.asarray(x) for x in operands]
    np.testing.assert_allclose(nn.attention(*arrays, window=window, q_offset=offset).jax, want, **near)


def test_an_offset_of_the_host_that_no_32_bits_hold() -> None:
    x = jnp.ones((1, 2, 1, 4))
    one = decode_attention(x, x, x, q_offset=2**40, window=(3, None))
    np.testing.assert_array_equal(one, jnp.zeros_like(x))
    with pytest.raises(InvalidArgument, match="q_offset"):
        decode_attention(x, x, x, q_offset=2**40, window=(2**40, None))
    with pytest.raises(InvalidArgument, match="q_offset"):
        nn.attention(*[xp.asarray(x)] * 3, q_offset=-(2**40), window=(None, 2**40))
