"""Bad input: one typed error for each way to be wrong, on the devices, the reference and a third party's backend."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rtx_jax.backend import Backend, CpuBackend, NumpyBackend
from rtx_jax.errors import (
    BroadcastError,
    DTypeMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    OutOfMemory,
    RtxError,
    ShapeMismatch,
    UnsupportedDType,
)
from tests.backend.toy import ToyBackend

BACKENDS = [CpuBackend(), NumpyBackend(), ToyBackend()]
every_backend = pytest.mark.parametrize("B", BACKENDS, ids=lambda B: B.name())

INT = "int32"


def t(B: Backend, *shape: int, dtype: object = None) -> object:
    return B.ones(shape, dtype=dtype)


WRONG = {
    # creation
    "negative size": (lambda B: B.zeros((2, -1)), InvalidArgument),
    "no size": (lambda B: B.ones((2.5,)), InvalidArgument),
    "text as shape": (lambda B: B.zeros("2"), InvalidArgument),
    "too many bytes": (lambda B: B.zeros((2**40, 2**40)), OutOfMemory),
    "more memory than there is": (lambda B: B.zeros((2**46,)), OutOfMemory),
    "fill of no number": (lambda B: B.full((2,), "x"), InvalidArgument),
    "fill out of range": (lambda B: B.full((2,), 300, dtype=np.int8), InvalidArgument),
    "fill of a fraction": (lambda B: B.full((2,), 0.5, dtype=np.int32), InvalidArgument),
    "fill of NaN": (lambda B: B.full((2,), float("nan"), dtype=np.int32), InvalidArgument),
    "no dtype": (lambda B: B.zeros((2,), dtype="float33"), UnsupportedDType),
    "random integers": (lambda B: B.rand((2,), dtype=np.int32), UnsupportedDType),
    "random complex": (lambda B: B.randn((2,), dtype=np.complex64), UnsupportedDType),
    "a key of another kind": (lambda B: B.rand((2,), key=np.zeros(3, np.uint32)), InvalidArgument),
    "negative seed": (lambda B: B.seed(-1), InvalidArgument),
    "seed of 65 bits": (lambda B: B.seed(2**64), InvalidArgument),
    "seed of no integer": (lambda B: B.seed(1.5), InvalidArgument),
    "too few data": (lambda B: B.from_data([1.0, 2.0], (3,)), ShapeMismatch),
    "bytes that end within an element": (lambda B: B.from_data(b"12345", (1,)), ShapeMismatch),
    "text as data": (lambda B: B.from_data(["a"], (1,)), UnsupportedDType),
    "ragged data": (lambda B: B.from_data([[1.0], [1.0, 2.0]], (3,)), UnsupportedDType),
    "no device": (lambda B: B.zeros((1,), device=object()), RtxError),
    # elementwise
    "shapes that do not broadcast": (lambda B: B.add(t(B, 2, 3), t(B, 2)), BroadcastError),
    "mixed kinds": (lambda B: B.mul(t(B, 2), t(B, 2, dtype=INT)), DTypeMismatch),
    "signed beside uint64": (lambda B: B.add(t(B, 2, dtype="int64"), t(B, 2, dtype="uint64")), DTypeMismatch),
    "bools": (lambda B: B.add(t(B, 2, dtype=bool), t(B, 2, dtype=bool)), UnsupportedDType),
    "division of integers": (lambda B: B.div(t(B, 2, dtype=INT), t(B, 2, dtype=INT)), UnsupportedDType),
    "exp of integers": (lambda B: B.exp(t(B, 2, dtype=INT)), UnsupportedDType),
    "a number as tensor": (lambda B: B.add(t(B, 2), 1.0), InvalidArgument),
    "a list as tensor": (lambda B: B.exp([1.0]), InvalidArgument),
    "no exponent": (lambda B: B.pow(t(B, 2), "2"), InvalidArgument),
    "tensor as exponent": (lambda B: B.pow(t(B, 2), t(B, 2)), InvalidArgument),
    "NaN as limit": (lambda B: B.clamp(t(B, 2), float("nan"), 1.0), InvalidArgument),
    "text as threshold": (lambda B: B.gt_scalar(t(B, 2), "1"), InvalidArgument),
    "cast to nothing": (lambda B: B.cast(t(B, 2), "nothing"), UnsupportedDType),
    "infinite slope": (lambda B: B.leaky_relu(t(B, 2), float("inf")), InvalidArgument),
    "celu of alpha 0": (lambda B: B.celu(t(B, 2), 0.0), InvalidArgument),
    "softplus of beta 0": (lambda B: B.softplus(t(B, 2), beta=0.0), InvalidArgument),
    "unknown gelu": (lambda B: B.gelu(t(B, 2), approximate="erf"), InvalidArgument),
    "slopes of other channels": (lambda B: B.prelu(t(B, 2, 3), t(B, 2)), ShapeMismatch),
    "halves of an odd axis": (lambda B: B.glu(t(B, 2, 3)), ShapeMismatch),
    # axes
    "negative axis": (lambda B: B.sum_dim(t(B, 2, 3), -1), InvalidDimension),
    "axis out of range": (lambda B: B.mean_dim(t(B, 2, 3), 2), InvalidDimension),
    "axis of a scalar": (lambda B: B.max_dim(t(B), 0), InvalidDimension),
    "softmax out of range": (lambda B: B.softmax(t(B, 2), 1), InvalidDimension),
    "axis of no integer": (lambda B: B.sum_dim(t(B, 2), 0.0), InvalidArgument),
    "greatest of nothing": (lambda B: B.max(t(B, 0)), InvalidArgument),
    "least of nothing": (lambda B: B.min_dim(t(B, 2, 0), 1), InvalidArgument),
    "mean of integers": (lambda B: B.mean(t(B, 2, dtype=INT)), UnsupportedDType),
    "infinite correction": (lambda B: B.var(t(B, 2), correction=float("inf")), InvalidArgument),
    # shape
    "other number of elements": (lambda B: B.reshape(t(B, 2, 3), (4,)), ShapeMismatch),
    "two unknown sizes": (lambda B: B.reshape(t(B, 2, 3), (-1, -1)), InvalidArgument),
    "unknown size of nothing": (lambda B: B.reshape(t(B, 0, 3), (0, -1)), ShapeMismatch),
    "transpose of a vector": (lambda B: B.transpose(t(B, 2)), InvalidDimension),
    "negative axis to swap": (lambda B: B.swap_dims(t(B, 2, 3), 0, -1), InvalidDimension),
    "no permutation": (lambda B: B.permute(t(B, 2, 3), (0, 0)), InvalidDimension),
    "matmul of a vector": (lambda B: B.matmul(t(B, 2), t(B, 2, 2)), InvalidDimension),
    "inner sizes": (lambda B: B.matmul(t(B, 2, 3), t(B, 2, 3)), ShapeMismatch),
    "unknown precision": (lambda B: B.matmul(t(B, 2, 2), t(B, 2, 2), precision="best"), InvalidArgument),
    "bmm of matrices": (lambda B: B.bmm(t(B, 2, 2), t(B, 2, 2)), InvalidDimension),
    "other batches": (lambda B: B.bmm(t(B, 2, 3, 4), t(B, 1, 4, 3)), ShapeMismatch),
    "matmul of mixed kinds": (lambda B: B.matmul(t(B, 2, 2), t(B, 2, 2, dtype=INT)), DTypeMismatch),
    # rows
    "index too large": (lambda B: B.index_select(t(B, 3, 2), [0, 3]), IndexOutOfBounds),
    "negative index": (lambda B: B.index_select(t(B, 3, 2), [-1]), IndexOutOfBounds),
    "index of no row": (lambda B: B.index_select(t(B, 0, 2), [0]), IndexOutOfBounds),
    "index in a tensor": (lambda B: B.index_select(t(B, 3), B.from_data([5], (1,))), IndexOutOfBounds),
    "fraction as index": (lambda B: B.index_select(t(B, 3), [0.5]), InvalidArgument),
    "bool as index": (lambda B: B.index_select(t(B, 3), [True]), InvalidArgument),
    "matrix of indices": (lambda B: B.index_select(t(B, 3), [[0]]), InvalidArgument),
    "rows of a scalar": (lambda B: B.index_select(t(B), [0]), InvalidDimension),
    "unknown mode": (lambda B: B.index_select(t(B, 3), [0], mode="wrap"), InvalidArgument),
    "too few indices": (lambda B: B.index_add(t(B, 3, 2), [0], 3), ShapeMismatch),
    "index beyond the rows": (lambda B: B.index_add(t(B, 1, 2), [3], 3), IndexOutOfBounds),
    "negative rows": (lambda B: B.index_add(t(B, 0, 2), [], -1), InvalidArgument),
    "embedding out of range": (lambda B: B.embedding([3], t(B, 3, 2)), IndexOutOfBounds),
    "embedding of a vector": (lambda B: B.embedding([0], t(B, 3)), InvalidDimension),
    # networks
    "norm of a scalar": (lambda B: B.layer_norm(t(B)), InvalidDimension),
    "weight of another size": (lambda B: B.layer_norm(t(B, 2, 3), t(B, 2)), ShapeMismatch),
    "negative eps": (lambda B: B.rms_norm(t(B, 2, 3), eps=-1.0), InvalidArgument),
    "norm of integers": (lambda B: B.rms_norm(t(B, 2, 3, dtype=INT)), UnsupportedDType),
    "groups that do not divide": (lambda B: B.group_norm(t(B, 2, 3), 2), InvalidArgument),
    "no statistics": (lambda B: B.batch_norm(t(B, 2, 3), None, None), InvalidArgument),
    "one value of a channel": (lambda B: B.batch_norm(t(B, 1, 3), None, None, training=True), InvalidArgument),
    "weight of other inputs": (lambda B: B.linear(t(B, 2, 3), t(B, 4, 2)), ShapeMismatch),
    "odd channels": (lambda B: B.rope(t(B, 4, 3), t(B, 4, 1), t(B, 4, 1)), ShapeMismatch),
    "too few positions": (lambda B: B.rope(t(B, 4, 2), t(B, 3, 1), t(B, 3, 1)), ShapeMismatch),
    "unknown pairing": (lambda B: B.rope(t(B, 4, 2), t(B, 4, 1), t(B, 4, 1), layout="pairs"), InvalidArgument),
    "attention of rank 3": (lambda B: B.flash_attention(*[t(B, 2, 3, 4)] * 3, scale=1.0), InvalidDimension),
    "heads that do not divide": (
        lambda B: B.flash_attention(t(B, 1, 3, 2, 4), *[t(B, 1, 2, 2, 4)] * 2, scale=1.0),
        ShapeMismatch,
    ),
    "mask of another shape": (
        lambda B: B.flash_attention(*[t(B, 1, 1, 2, 4)] * 3, t(B, 1, 1, 3, 2), scale=1.0),
        BroadcastError,
    ),
    "softcap of 0": (
        lambda B: B.flash_attention(*[t(B, 1, 1, 2, 4)] * 3, scale=1.0, softcap=0.0),
        InvalidArgument,
    ),
    "scale of NaN": (lambda B: B.flash_attention(*[t(B, 1, 1, 2, 4)] * 3, scale=float("nan")), InvalidArgument),
    "stride of 0": (lambda B: B.conv2d(t(B, 1, 1, 4, 4), t(B, 1, 1, 2, 2), stride=0), InvalidArgument),
    "negative padding": (lambda B: B.conv2d(t(B, 1, 1, 4, 4), t(B, 1, 1, 2, 2), padding=-1), InvalidArgument),
    "convolution's groups": (lambda B: B.conv2d(t(B, 1, 3, 4, 4), t(B, 2, 1, 2, 2), groups=2), InvalidArgument),
    "kernel beyond the image": (lambda B: B.conv2d(t(B, 1, 1, 2, 2), t(B, 1, 1, 3, 3)), InvalidArgument),
    "other channels": (lambda B: B.conv2d(t(B, 1, 2, 4, 4), t(B, 1, 1, 2, 2)), ShapeMismatch),
    "bias of other channels": (
        lambda B: B.conv2d(t(B, 1, 1, 4, 4), t(B, 2, 1, 2, 2), t(B, 3)),
        ShapeMismatch,
    ),
    "convolution of a matrix": (lambda B: B.conv2d(t(B, 4, 4), t(B, 1, 1, 2, 2)), InvalidDimension),
    "dilation of 0": (lambda B: B.conv1d(t(B, 1, 1, 4), t(B, 1, 1, 2), dilation=0), InvalidArgument),
    "transpose's padding": (
        lambda B: B.conv_transpose2d(t(B, 1, 1, 2, 2), t(B, 1, 1, 2, 2), output_padding=1),
        InvalidArgument,
    ),
    "window of padding alone": (lambda B: B.max_pool2d(t(B, 1, 1, 4, 4), 2, padding=2), InvalidArgument),
    "negative padding of a pool": (lambda B: B.avg_pool2d(t(B, 1, 1, 4, 4), 2, padding=-1), InvalidArgument),
    "window of 0": (lambda B: B.avg_pool2d(t(B, 1, 1, 4, 4), 0), InvalidArgument),
    "step of 0": (lambda B: B.max_pool2d(t(B, 1, 1, 4, 4), 2, 0), InvalidArgument),
    "window beyond the image": (lambda B: B.max_pool1d(t(B, 1, 1, 2), 3), InvalidArgument),
    "mean of integers in windows": (lambda B: B.avg_pool1d(t(B, 1, 1, 4, dtype=INT), 2), UnsupportedDType),
    "no windows": (lambda B: B.adaptive_avg_pool2d(t(B, 1, 1, 4, 4), 0), InvalidArgument),
    "size and factor": (lambda B: B.interpolate(t(B, 1, 1, 4), 2, 2.0), InvalidArgument),
    "unknown interpolation": (lambda B: B.interpolate(t(B, 1, 1, 4), 2, mode="sharp"), InvalidArgument),
    "no block": (lambda B: B.unfold(t(B, 1, 1, 2, 2), 3), InvalidArgument),
    "columns of other images": (lambda B: B.fold(t(B, 1, 4, 3), (3, 3), 2), ShapeMismatch),
}


@every_backend
@pytest.mark.parametrize("name", WRONG)
def test_wrong(name: str, B: Backend) -> None:
    call, error = WRONG[name]
    for _ in range(2):  # nothing of the first attempt is kept
        with pytest.raises(error) as caught:
            call(B)
    assert type(caught.value) is error or error is RtxError
    text = str(caught.value)
    assert not text.startswith("attention")  # the method is named
    assert "got" in text and (caught.value.wanted != "" or caught.value.remedy)


@every_backend
def test_a_right_call_does_not_excuse_a_wrong_one(B: Backend) -> None:
    image, kernel = t(B, 1, 1, 4, 4), t(B, 1, 1, 2, 2)
    B.conv2d(image, kernel, stride=1)
    for wrong in (1.0, "1", (1, 1, 1)):
        with pytest.raises(InvalidArgument):
            B.conv2d(image, kernel, stride=wrong)
    B.index_select(t(B, 3), [1])
    for wrong in ([True], [1.0]):
        with pytest.raises(InvalidArgument):
            B.index_select(t(B, 3), wrong)
    B.add(t(B, 2, 3), t(B, 3))
    with pytest.raises(DTypeMismatch):
        B.add(t(B, 2, 3), t(B, 3, dtype=INT))


def test_messages_say_what_to_do() -> None:
    B = CpuBackend()
    with pytest.raises(IndexOutOfBounds, match="index 7 for 3 rows") as caught:
        B.index_select(B.zeros((3,)), [7])
    assert isinstance(caught.value, IndexError) and (caught.value.index, caught.value.size) == (7, 3)
    with pytest.raises(InvalidArgument, match="from_data"):
        B.add(B.zeros((2,)), np.zeros(2, np.float32))
    with pytest.raises(DTypeMismatch, match="cast"):
        B.add(B.zeros((2,)), B.zeros((2,), dtype=np.int32))


def test_errors_under_jit_are_the_same() -> None:
    B = CpuBackend()
    x = B.zeros((2, 3))
    with pytest.raises(BroadcastError):
        jax.jit(lambda x: B.add(x, B.zeros((2,))))(x)
    with pytest.raises(InvalidArgument, match="number of the host"):
        jax.jit(lambda x, v: B.gt_scalar(x, v))(x, 1.0)


def test_traced_indices() -> None:
    B = CpuBackend()
    x = B.from_data([1.0, 2.0], (2,))
    read = jax.jit(lambda x, i: B.index_select(x, i))(x, jnp.array([1, 5, -1]))
    np.testing.assert_array_equal(np.asarray(read), [2.0, np.nan, np.nan])
    added = jax.jit(lambda x, i: B.index_add(x, i, 2))(x, jnp.array([1, 7]))
    np.testing.assert_array_equal(np.asarray(added), [0.0, 1.0])
    clipped = jax.jit(lambda x, i: B.index_select(x, i, mode="clip"))(x, jnp.array([5, -1]))
    np.testing.assert_array_equal(np.asarray(clipped), [2.0, 1.0])
