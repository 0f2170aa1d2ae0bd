"""Parameters of the wrong kind, and operands that are missing, raise typed errors on every backend."""

from __future__ import annotations

from collections.abc import Callable

import jax
import ml_dtypes
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import nn
from rtx_jax.backend import Backend, CpuBackend, NumpyBackend
from rtx_jax.errors import (
    DTypeMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    OutOfMemory,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
    UseAfterMove,
)

BACKENDS = [CpuBackend(), NumpyBackend()]
by_backend = pytest.mark.parametrize("B", BACKENDS, ids=lambda B: B.name())
ARRAY = np.asarray([1, 0])
IMAGE = np.ones((1, 1, 4, 4), np.float32)
ROWS = np.ones((2, 3), np.float32)
HEADS = np.ones((1, 1, 2, 4), np.float32)


def t(B: Backend, x: np.ndarray) -> object:
    return B.from_data(x, x.shape)


ARRAYS_AS_WORDS: dict[str, Callable[..., object]] = {
    "gelu": lambda B: B.gelu(t(B, ROWS), approximate=ARRAY),
    "matmul": lambda B: B.matmul(t(B, ROWS), t(B, ROWS.T.copy()), precision=ARRAY),
    "index_select": lambda B: B.index_select(t(B, ROWS), [0], mode=ARRAY),
    "index_add": lambda B: B.index_add(t(B, ROWS), [0, 0], 1, deterministic=ARRAY),
    "rope": lambda B: B.rope(t(B, HEADS), t(B, HEADS[0, 0, :, :2]), t(B, HEADS[0, 0, :, :2]), layout=ARRAY),
    "attention": lambda B: B.flash_attention(t(B, HEADS), t(B, HEADS), t(B, HEADS), scale=1.0, causal=ARRAY),
    "lse": lambda B: B.flash_attention(t(B, HEADS), t(B, HEADS), t(B, HEADS), scale=1.0, return_lse=ARRAY),
    "offset": lambda B: B.flash_attention(t(B, HEADS), t(B, HEADS), t(B, HEADS), scale=1.0, q_offset=2**70),
    "max_pool2d": lambda B: B.max_pool2d(t(B, IMAGE), 2, ceil_mode=ARRAY),
    "avg_pool2d": lambda B: B.avg_pool2d(t(B, IMAGE), 2, count_include_pad=ARRAY),
    "interpolate": lambda B: B.interpolate(t(B, IMAGE), 2, mode=ARRAY),
    "align": lambda B: B.interpolate(t(B, IMAGE), 2, mode="bilinear", align_corners=ARRAY),
    "batch_norm": lambda B: B.batch_norm(t(B, IMAGE), None, None, training=ARRAY),
    "seed": lambda B: B.seed(ARRAY),
    "pow": lambda B: B.pow(t(B, ROWS), np.str_("a")),
    "complex": lambda B: B.pow(t(B, ROWS), np.complex64(1 + 2j)),
}


@by_backend
@pytest.mark.parametrize("name", ARRAYS_AS_WORDS)
def test_parameters_of_the_wrong_kind(B: Backend, name: str) -> None:
    with pytest.raises(InvalidArgument):
        ARRAYS_AS_WORDS[name](B)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.max_pool2d(x, 2, ceil_mode=ARRAY),
        lambda x: nn.avg_pool2d(x, 2, count_include_pad="yes"),
        lambda x: nn.interpolate(x, size=2, mode="bilinear", align_corners=ARRAY),
        lambda x: nn.batch_norm(x, None, None, training=None),
        lambda x: nn.attention(x, x, x, causal=ARRAY),
        lambda x: nn.attention(x, x, x, return_lse=2),
        lambda x: nn.gelu(x, approximate=ARRAY),
        lambda x: xp.jit(lambda flag: nn.attention(x, x, x, causal=flag))(xp.asarray(True)),
    ],
)
def test_parameters_of_the_wrong_kind_in_nn(call: Callable[[xp.Array], object]) -> None:
    with pytest.raises(InvalidArgument):
        call(xp.asarray(IMAGE))


@by_backend
@pytest.mark.parametrize(
    "call",
    [
        lambda B, x: B.max_pool2d(None, 2),
        lambda B, x: B.avg_pool2d(None, 2),
        lambda B, x: B.adaptive_avg_pool2d(None, 2),
        lambda B, x: B.interpolate(None, 2),
        lambda B, x: B.unfold(None, 2),
        lambda B, x: B.conv2d(None, x),
        lambda B, x: B.conv2d(x, None),
        lambda B, x: B.conv_transpose2d(x, None),
        lambda B, x: B.linear(x, None),
        lambda B, x: B.group_norm(None, 1),
        lambda B, x: B.flash_attention(x, None, x, scale=1.0),
        lambda B, x: B.rope(x, x, None),
        lambda B, x: B.silu_mul(x, None),
        lambda B, x: B.cast(None, "float32"),
        lambda B, x: B.to_data("text"),
        lambda B, x: B.to_device("text", None),
        lambda B, x: B.device(3),
    ],
)
def test_missing_operands(B: Backend, call: Callable[..., object]) -> None:
    with pytest.raises(InvalidArgument):
        call(B, t(B, IMAGE))


@by_backend
def test_foreign_dtypes_have_no_name(B: Backend) -> None:
    class Foreign:
        dtype, shape, ndim = object(), (2,), 1

    for call in (B.exp, B.sum, B.relu, lambda x: B.softmax(x, 0), lambda x: B.clamp(x, 0, 1)):
        with pytest.raises(RtxError):
            call(Foreign())


@by_backend
def test_reshape_counts_elements_of_every_form_of_size(B: Backend) -> None:
    x = t(B, ROWS)
    assert B.shape(B.reshape(x, np.int64(6))) == (6,)
    assert B.shape(B.reshape(x, np.int64(-1))) == (6,)
    with pytest.raises(ShapeMismatch):
        B.reshape(x, np.int64(1))
    with pytest.raises(OutOfMemory):
        B.reshape(B.zeros((0, 3)), (2**63, 0))
    with pytest.raises(OutOfMemory):
        B.zeros((2**70, 0))


@by_backend
def test_absolute_values_of_four_bits(B: Backend) -> None:
    x = np.asarray([-8, -7, -1, 0, 5, 7]).astype(ml_dtypes.int4)
    # The greatest is 7, so that of -8 wraps around.
    assert B.to_data(B.abs(t(B, x))).astype(int).tolist() == [-8, 7, 1, 0, 5, 7]


@by_backend
def test_what_complex_tensors_lose_is_refused(B: Backend) -> None:
    z = t(B, np.asarray([1 + 2j, 0j, 1j], np.complex64))
    with pytest.raises(DTypeMismatch):
        B.cast(z, "float32")
    assert B.to_data(B.cast(z, bool)).tolist() == [True, False, True]
    with pytest.raises(UnsupportedDType):
        B.index_add(z, [0, 0, 0], 1)
    for dtype in ("U3", object, [], (np.int8(2), False)):
        with pytest.raises(UnsupportedDType):
            B.zeros((2,), dtype=dtype)


@by_backend
def test_silu_mul_takes_equal_shapes_and_keeps_the_dtype_of_the_gate(B: Backend) -> None:
    gate, up = np.asarray([0.0, 40.0], np.float16), np.asarray([3.0, 2.0], np.float32)
    got = B.to_data(B.silu_mul(t(B, gate), t(B, up)))
    assert got.dtype == np.float16 and got.tolist() == [0.0, 80.0]
    with pytest.raises(ShapeMismatch):
        B.silu_mul(t(B, gate), t(B, up[:1]))


@by_backend
def test_parameters_beyond_the_range_of_the_dtype(B: Backend) -> None:
    x = np.asarray([np.inf, -np.inf, 0.0, -1.0, 2.0], np.float32)
    with np.errstate(all="ignore"):
        assert B.to_data(B.leaky_relu(t(B, x), 1e-300)).tolist() == [np.inf, -np.inf, 0.0, 0.0, 2.0]
        assert B.to_data(B.celu(t(B, x), 1e-300)).tolist() == [np.inf, 0.0, 0.0, 0.0, 2.0]
        assert B.to_data(B.celu(t(B, x), 1e300)).tolist() == [np.inf, -np.inf, 0.0, -1.0, 2.0]


@by_backend
def test_integers_are_compared_exactly(B: Backend) -> None:
    x = t(B, np.asarray([2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1], np.int64))
    assert B.to_data(B.gt_scalar(x, 2**53 + 1)).tolist() == [0, 0, 1, 1]
    assert B.to_data(B.gt_scalar(x, 10**400)).tolist() == [0, 0, 0, 0]
    assert B.to_data(B.clamp(x, 2**53 + 1, 2**63 - 2)).tolist() == [2**53 + 1, 2**53 + 1, 2**53 + 2, 2**63 - 2]
    assert B.to_data(B.clamp(x, -(10**400), 10**400)).tolist() == B.to_data(x).tolist()
    assert B.to_data(B.clamp(t(B, np.asarray([-3, 3], np.int8)), -1.5, np.inf)).tolist() == [-1, 3]


@by_backend
def test_host_data_are_converted_as_by_cast(B: Backend) -> None:
    wide = [np.nan, 1e20, -np.inf, 2.7]
    assert B.to_data(B.from_data(wide, (4,), dtype=np.int32)).tolist() == [0, 2**31 - 1, -(2**31), 2]
    # Just above the midpoint of 1 and its neighbour 1 + 2**-7, which float32 does not tell from it.
    above = 1 + 2**-8 + 2**-30
    assert float(B.to_data(B.from_data([above], (1,), dtype=ml_dtypes.bfloat16))[0]) == 1 + 2**-7
    with pytest.raises(DTypeMismatch):
        B.from_data(np.asarray([1 + 2j]), (1,), dtype=np.float32)


@by_backend
def test_complex_tensors_are_filled_with_real_numbers(B: Backend) -> None:
    got = B.to_data(B.full((2,), 2.5, dtype=np.complex64))
    assert got.dtype == np.complex64 and got.tolist() == [2.5, 2.5]
    with pytest.raises(InvalidArgument):
        B.full((2,), 1j, dtype=np.complex64)


def test_keys_are_no_tensors_and_deleted_ones_are_told() -> None:
    B, keys = CpuBackend(), jax.random.split(jax.random.key(1), 2)
    for call in (B.to_data, lambda k: B.cast(k, "float32"), lambda k: B.reshape(k, (1, 2))):
        with pytest.raises(InvalidArgument):
            call(keys)
    with pytest.raises(InvalidArgument):
        B.index_select(keys, [0])
    gone = B.ones((3,))
    gone.delete()
    for call in (B.device, B.exp, lambda x: B.to_device(x, "cpu"), B.to_data):
        with pytest.raises(UseAfterMove):
            call(gone)


def test_dropout_takes_a_bool() -> None:
    with pytest.raises(InvalidArgument):
        nn.dropout(xp.ones(3), 0.5, training="no")  # type: ignore[arg-type]


@by_backend
def test_clamps_of_four_bits_keep_their_dtype(B: Backend) -> None:
    got = B.to_data(B.clamp(t(B, np.asarray([-8, -1, 3, 7]).astype(ml_dtypes.int4)), -2, 100))
    assert got.dtype == ml_dtypes.int4 and got.astype(int).tolist() == [-2, -1, 3, 7]


@by_backend
def test_transposed_convolution_to_no_channels(B: Backend) -> None:
    out = B.conv_transpose2d(t(B, IMAGE), t(B, np.zeros((1, 0, 3, 3), np.float32)), stride=2)
    assert B.shape(out) == (1, 0, 9, 9)


@by_backend
@pytest.mark.parametrize("position", [-1, 2])
def test_positions_that_the_tables_lack(B: Backend, position: int) -> None:
    x, table = t(B, HEADS), t(B, HEADS[0, 0, :, :2])
    with pytest.raises(IndexOutOfBounds):
        B.rope(x, table, table, positions=t(B, np.asarray([0, position], np.int32)))
    assert B.shape(B.rope(x, table, table, positions=t(B, np.asarray([1, 1], np.int32)))) == HEADS.shape
