"""What a write to an Array does, on buffers of every ownership, eager and under jit."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.core import index_table
from rtx_jax.errors import BroadcastError, DTypeMismatch, IndexOutOfBounds, InvalidKey, RtxError, ScalarOverflow
from tests.core.index_cases import KEYS, SHAPE

VALUES = np.arange(60.0, dtype="float32").reshape(SHAPE)


def owned() -> xp.Array:
    return xp.asarray(VALUES) + 0


def shared() -> xp.Array:
    x = owned()
    _KEPT.append((x.copy(), x.jax, np.asarray(x)))
    return x


def foreign() -> xp.Array:
    outside = jax.numpy.asarray(VALUES)
    _KEPT.append((outside,))
    return xp.Array(outside)


def interned() -> xp.Array:
    return xp.zeros(SHAPE, dtype=xp.float32)


SOURCES: dict[str, Callable[[], xp.Array]] = {
    "owned": owned,
    "shared": shared,
    "foreign": foreign,
    "interned": interned,
}
_KEPT: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def kept_arrays_keep_their_values() -> object:
    _KEPT.clear()
    yield
    for group in _KEPT:
        for other in group:
            np.testing.assert_array_equal(np.asarray(other), VALUES)
    np.testing.assert_array_equal(np.asarray(interned()), np.zeros(SHAPE))


@pytest.fixture(params=["served", "compiled"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled":
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", ["integer", "array and slice", "reversed", "mask", "everything", "two arrays"])
def test_write(name: str, source: str, path: None) -> None:
    x = SOURCES[source]()
    same, want, key = x, np.array(x), KEYS[name]
    value = np.arange(want[key].size, dtype="float32").reshape(want[key].shape)
    for new in (5, value, xp.asarray(value), value.astype("float64"), True):
        x[key] = new
        want[key] = np.asarray(new)
        assert x is same
        assert (x.dtype, x.shape) == (xp.float32, SHAPE)
        np.testing.assert_array_equal(np.asarray(x), want)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", KEYS)
def test_write_under_jit_reaches_the_argument(name: str, source: str) -> None:
    key = KEYS[name]

    @xp.jit
    def write(x: xp.Array) -> xp.Array:
        x[key] = -1
        return x[0]

    x, want = SOURCES[source](), np.array(SOURCES[source]())
    want[key] = -1
    for _ in range(2):
        first = write(x)
        np.testing.assert_array_equal(np.asarray(x), want)
        np.testing.assert_array_equal(np.asarray(first), want[0])


@pytest.mark.parametrize("source", SOURCES)
def test_augmented_write_of_part(source: str, path: None) -> None:
    x, want = SOURCES[source](), np.array(SOURCES[source]())
    x[1] += 2
    x[:, 1:] *= 3
    x[[0, 0, 2]] -= 1
    x[x > 100] /= 2
    want[1] += 2
    want[:, 1:] *= 3
    want[[0, 0, 2]] -= 1
    want[want > 100] /= 2
    np.testing.assert_array_equal(np.asarray(x), want)


def test_repeated_indices_are_read_once_and_written_last(path: None) -> None:
    x = xp.zeros(3)
    x[[0, 1, 1]] += 1
    x[xp.asarray([2, 2, 2])] = xp.asarray([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(np.asarray(x), [1, 1, 3])


def test_overlapping_parts_of_one_array(path: None) -> None:
    x, want = xp.arange(8), np.arange(8)
    x[1:] = x[:-1]
    x[::-1] = x
    x[:4], x[4:] = x[4:], x[:4]
    want[1:] = want[:-1].copy()
    want[::-1] = want.copy()
    want[:4], want[4:] = want[4:].copy(), want[:4].copy()
    np.testing.assert_array_equal(np.asarray(x), want)


def test_the_array_as_its_own_key_and_value(path: None) -> None:
    for _ in range(3):
        x, want = xp.asarray([2, 0, 1, 3]) + 0, np.array([2, 0, 1, 3])
        x[x] = x
        want[want] = want.copy()
        np.testing.assert_array_equal(np.asarray(x), want)
        mask = xp.asarray([True, True]) & True
        mask[mask] = mask
        np.testing.assert_array_equal(np.asarray(mask), [True, True])


def test_keys_of_arrays(path: None) -> None:
    """Arrays stand in keys wherever NumPy's arrays and integers do."""
    x, want = owned(), VALUES.copy()
    i, two = xp.asarray([3, -1], dtype=xp.int8), xp.asarray(2)
    for key, numpy_key in (
        (i, [3, -1]),
        (two, 2),
        ((two, Ellipsis, i), (2, Ellipsis, [3, -1])),
        ((slice(None), i[1:]), (slice(None), [-1])),
        (slice(two), slice(2)),
        ((0, xp.asarray([True, False, True])), (0, [True, False, True])),
        ([xp.asarray(1), 2], [1, 2]),
        (xp.asarray(VALUES) > 30, VALUES > 30),
    ):
        np.testing.assert_array_equal(np.asarray(x[key]), want[numpy_key])
        x[key] = 4
        want[numpy_key] = 4
        np.testing.assert_array_equal(np.asarray(x), want)


@pytest.mark.parametrize("transform", [lambda f: f, xp.jit], ids=["eager", "jit"])
@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (4, 0, IndexOutOfBounds),
        ((0, -4), 0, IndexOutOfBounds),
        ([0, 4], 0, IndexOutOfBounds),
        ("a", 0, InvalidKey),
        (1.0, 0, InvalidKey),
        (np.ones((4, 1), bool), 0, InvalidKey),
        (0, 1j, DTypeMismatch),
        (0, np.ones(5, "complex64"), DTypeMismatch),
        (slice(2), np.ones((3, 3, 5)), BroadcastError),
        ([0, 1], np.ones(4), BroadcastError),
        (0, 2**2000, ScalarOverflow),
    ],
)
def test_failed_write_changes_nothing(
    key: object, value: object, error: type[RtxError], transform: Callable[..., Callable[[xp.Array], None]]
) -> None:
    x = owned()

    def write(x: xp.Array) -> None:
        x[key] = value

    for _ in range(2):
        with pytest.raises(error, match=r"x\[key\] = value: argument (key|value): got .*wanted"):
            transform(write)(x)
        np.testing.assert_array_equal(np.asarray(x), VALUES)
    x[0] = 1  # still writable
    assert float(x[0, 0, 0]) == 1


def test_assigning_real_to_integer_is_refused() -> None:
    x = xp.arange(3)
    for value in (1.5, xp.asarray(1.5), np.float32(2), xp.ones(3)):
        with pytest.raises(DTypeMismatch, match="int64"):
            x[...] = value
    np.testing.assert_array_equal(np.asarray(x), [0, 1, 2])


def test_large_array_is_written_in_place_and_views_keep_their_values() -> None:
    x = xp.zeros(10_000_000, dtype=xp.float32) + 1
    x[0] = 2
    pointer = x.jax.unsafe_buffer_pointer()
    x[1] = 2  # the buffer was handed out above, so this write copies
    pointer = x._data.unsafe_buffer_pointer()
    for i in range(20):
        x[i] = i
        x[i : i + 5] = i
    assert x._data.unsafe_buffer_pointer() == pointer
    view = np.asarray(x)
    x[0] = -1
    assert view[0] == 0
    assert float(x[0]) == -1
    del view
    pointer = x._data.unsafe_buffer_pointer()
    x[1] = -1
    assert x._data.unsafe_buffer_pointer() == pointer


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bool", "complex128", "bfloat16"])
def test_scalar_is_cast_to_the_dtype(dtype: str) -> None:
    x = xp.zeros(3, dtype=dtype)
    x[0] = True
    x[[1]] = xp.asarray(True)
    assert x.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(np.asarray(x).astype(complex), [1, 1, 0])
