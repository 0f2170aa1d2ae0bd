"""Keys against NumPy's, by every path: served by the host, compiled, traced, unchecked, on unordered devices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rtx_jax as xp
from rtx_jax import _config
from rtx_jax._compat import x64
from rtx_jax.core import index_table, indexing
from rtx_jax.errors import (
    BroadcastError,
    DataDependentShape,
    DTypeMismatch,
    IndexOutOfBounds,
    InvalidArgument,
    InvalidDimension,
    InvalidKey,
    ScalarOverflow,
    UnsupportedDType,
)
from tests.core.index_cases import KEYS, SHAPE

FLOAT64 = np.linspace(-3, 3, 60).reshape(SHAPE)


def on_device(values: np.ndarray) -> jax.Array:
    with x64():
        return jnp.asarray(values)


def write(x: jax.Array, key: object, value: object, *, donate: bool = False) -> jax.Array:
    plain, donating, operands, wide = indexing.plan_set(x, key, value)
    return index_table.call(donating if donate else plain, wide, x, *operands)


def copied(x: jax.Array) -> jax.Array:
    return index_table.call(jax.jit(jnp.copy), True, x)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_table.limits, "reads", 0)
    monkeypatch.setattr(index_table.limits, "writes", 0)


@pytest.fixture
def unchecked(compiled: None) -> Iterator[None]:
    with _config.override("check_bounds", False):
        yield


def device_key(key: object) -> object:
    if isinstance(key, tuple):
        return tuple(device_key(part) for part in key)
    return on_device(key) if isinstance(key, np.ndarray) else key


def check_read(key: object) -> None:
    x = on_device(FLOAT64)
    want = FLOAT64[key]
    for ours in (key, device_key(key)):
        got = indexing.get(x, ours)
        assert got.dtype == np.float64
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def check_write(key: object, *, donate: bool = False) -> None:
    x = on_device(FLOAT64)
    shape = FLOAT64[key].shape
    last = np.arange(shape[-1]) if shape else np.array(2)
    for value in (7.5, np.asarray(np.arange(np.prod(shape)).reshape(shape) + 0.25), last):
        want = FLOAT64.copy()
        want[key] = value
        given = copied(x) if donate else x
        got = write(given, device_key(key), value, donate=donate)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got, want)
        # An array of the device as value, and one of another dtype.
        if isinstance(value, np.ndarray):
            narrow = value.astype(np.float32)
            want[key] = narrow
            np.testing.assert_array_equal(write(x, key, on_device(narrow)), want)
    np.testing.assert_array_equal(x, FLOAT64)


@pytest.mark.parametrize("name", KEYS)
def test_host_serves_as_numpy(name: str) -> None:
    check_read(KEYS[name])
    check_write(KEYS[name])


@pytest.mark.parametrize("name", KEYS)
def test_compiled_read_is_numpys(name: str, compiled: None) -> None:
    check_read(KEYS[name])


@pytest.mark.parametrize("name", KEYS)
def test_compiled_write_is_numpys(name: str, compiled: None) -> None:
    check_write(KEYS[name])
    check_write(KEYS[name], donate=True)


@pytest.mark.parametrize("name", [name for name, key in KEYS.items() if "mask" not in name])
def test_without_checks_indices_in_range_read_and_write_as_numpy(name: str, unchecked: None) -> None:
    check_read(KEYS[name])
    check_write(KEYS[name])


@pytest.mark.parametrize("name", ["array", "array and slice", "two arrays", "separated arrays"])
def test_write_on_device_without_order(name: str, compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_table.limits, "in_order", ())
    values, key = np.zeros(SHAPE, "int32"), KEYS[name]
    value = np.arange(values[key].size).reshape(values[key].shape)
    values[key] = value
    np.testing.assert_array_equal(write(on_device(np.zeros(SHAPE, "int32")), key, value), values)


@pytest.mark.parametrize("name", KEYS)
def test_traced_is_numpys(name: str) -> None:
    key = KEYS[name]
    x = on_device(FLOAT64)
    got = jax.jit(lambda x: indexing.get(x, key))(x)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, FLOAT64[key])
    shape = FLOAT64[key].shape
    value = np.arange(np.prod(shape)).reshape(shape) + 0.25
    want = FLOAT64.copy()
    want[key] = value
    np.testing.assert_array_equal(jax.jit(lambda x: write(x, key, value))(x), want)


@pytest.mark.parametrize("name", [name for name in KEYS if "array" in name and "mask" not in name])
def test_traced_index_arrays(name: str) -> None:
    x, key = on_device(FLOAT64), device_key(KEYS[name])
    np.testing.assert_array_equal(
        jax.jit(indexing.get)(x, key) if _static(key) else traced_get(x, key), FLOAT64[KEYS[name]]
    )


def _static(key: object) -> bool:
    return isinstance(key, jax.Array)


def traced_get(x: jax.Array, key: tuple[object, ...]) -> jax.Array:
    """Read with the arrays of a key as operands of a traced function."""
    arrays = [part for part in key if isinstance(part, jax.Array)]

    def read(x: jax.Array, arrays: list[jax.Array]) -> jax.Array:
        left = iter(arrays)
        return indexing.get(x, tuple(next(left) if isinstance(part, jax.Array) else part for part in key))

    return jax.jit(read)(x, arrays)


basic_parts = st.one_of(st.just(None), st.booleans(), st.just(Ellipsis))


@settings(max_examples=300, deadline=None)
@given(
    shape=st.sampled_from([(), (4,), (3, 4), (2, 3, 4), (0, 3)]),
    dtype=st.sampled_from(["float32", "float64", "int8", "uint16", "bool", "complex128"]),
    data=st.data(),
)
def test_any_basic_key(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    values = data.draw(hnp.arrays(dtype, shape, elements=hnp.from_dtype(np.dtype(dtype), allow_nan=False)))
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True))
    x = on_device(values)
    np.testing.assert_array_equal(indexing.get(x, key), values[key])
    want = values.copy()
    value = values.flatten()[0] if values.size else np.zeros((), dtype)
    want[key] = value
    np.testing.assert_array_equal(write(x, key, value), want)


@settings(max_examples=300, deadline=None)
@given(shape=st.sampled_from([(4,), (3, 4), (2, 3, 4)]), data=st.data())
def test_any_mix(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Arrays, masks, integers, slices, new axes and scalar masks in any order."""
    values = np.arange(np.prod(shape)).reshape(shape).astype("int32")
    batch = data.draw(st.sampled_from([(2,), (1,), (2, 3), (3,), (0,)]))
    key: list[object] = []
    for size in shape:
        kind = data.draw(st.sampled_from(["array", "slice", "int", "whole", "mask", "new", "flag"]))
        if kind == "array":
            dtype = data.draw(st.sampled_from(["int8", "uint8", "int32", "int64", "uint32"]))
            low = 0 if dtype.startswith("u") else -size
            key.append(data.draw(hnp.arrays(dtype, batch, elements=st.integers(low, size - 1))))
        elif kind == "slice":
            key.append(data.draw(st.slices(size)))
        elif kind == "int":
            key.append(data.draw(st.integers(-size, size - 1)))
        elif kind == "mask":
            key.append(data.draw(hnp.arrays(bool, (size,))))
        else:
            key.append({"whole": slice(None), "new": None, "flag": True}[kind])
    place = data.draw(st.integers(0, len(key)))
    if data.draw(st.booleans()):
        key.insert(place, Ellipsis)
    x = on_device(values)
    try:
        want = values[tuple(key)]
    except IndexError:
        with pytest.raises((BroadcastError, InvalidKey, IndexOutOfBounds)):
            indexing.get(x, tuple(key))
        return
    got = indexing.get(x, tuple(key))
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
    value = np.arange(want.size).reshape(want.shape)
    changed = values.copy()
    changed[tuple(key)] = value
    np.testing.assert_array_equal(write(x, tuple(key), value), changed)


@pytest.mark.parametrize(
    "dtype",
    [
        np.bool_, np.int8, np.uint64, np.float16, np.complex128, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
        ml_dtypes.int4,
    ],
)  # fmt: skip
@pytest.mark.parametrize("served", [True, False])
def test_every_dtype_is_kept(dtype: type, served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not served:
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype)
    x = on_device(values)
    for key in (1, (slice(None), slice(None, None, -2)), (0, 2), np.array([1, 0, 1]), values.astype(bool)):
        got = indexing.get(x, key)
        assert got.dtype == dtype
        np.testing.assert_array_equal(np.asarray(got).astype(complex), values[key].astype(complex))
        for value in (True, on_device(np.ones((), dtype))):
            changed = values.copy()
            changed[key] = 1
            new = write(x, key, value)
            assert new.dtype == dtype
            np.testing.assert_array_equal(np.asarray(new).astype(complex), changed.astype(complex))


# --- what is compiled -------------------------------------------------------------------------------------------------


class Compilations:
    def __init__(self) -> None:
        self.count = 0

    def __call__(self, event: str, duration: float, **fields: object) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compilations() -> Iterator[Compilations]:
    counter = Compilations()
    jax.monitoring.register_event_duration_secs_listener(counter)
    yield counter
    jax.monitoring.unregister_event_duration_listener(counter)


def test_loop_over_positions_compiles_once(compilations: Compilations, compiled: None) -> None:
    indexing.clear()
    x = on_device(np.arange(40, dtype="float32"))
    indexing.get(x, 0), indexing.get(x, slice(0, 3)), write(x, 0, 1.0), write(x, slice(0, 3), 1.0)
    before = compilations.count
    for i in range(-40, 37):
        assert int(indexing.get(x, i)) == i % 40
        indexing.get(x, slice(i, i + 3) if i >= 0 else slice(0, 3))
        write(x, i, float(i))
        write(x, slice(i % 37, i % 37 + 3), i)
    assert compilations.count == before


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_growing_slices_do_not_compile(compilations: Compilations, dtype: str) -> None:
    values = np.arange(300).astype(dtype)
    x = on_device(values)
    write(x, slice(0, 1), 1.0)
    before = compilations.count
    for n in range(1, 300):
        np.testing.assert_array_equal(indexing.get(x, slice(n)), values[:n])
        assert float(write(x, slice(n), 2.0)[n - 1]) == 2
    assert compilations.count - before <= 3  # float(...[n - 1]) of JAX itself


@pytest.mark.parametrize(
    "key", [lambda n: slice(n), lambda n: (1, slice(3, 3 + n)), lambda n: (Ellipsis, slice(n, None, -2))]
)
def test_growing_writes_compile_per_doubling(
    key: Callable[[int], object], compilations: Compilations, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the host does not serve: on large arrays, and off the host."""
    monkeypatch.setattr(index_table.limits, "write_bytes", 0)
    indexing.clear()
    want = np.zeros((120, 120), "float32")
    x = on_device(want)
    before = compilations.count
    for n in range(1, 100):
        want[key(n)] = n
        x = write(x, key(n), n)
        np.testing.assert_array_equal(x, want)
    assert compilations.count - before <= 12


def test_masks_of_any_count_do_not_compile(compilations: Compilations) -> None:
    values = np.arange(5000.0, dtype="float32")
    x = on_device(values)
    before = compilations.count
    for n in range(2, 60):
        mask = values % n == 0
        np.testing.assert_array_equal(indexing.get(x, mask), values[mask])
    assert compilations.count == before


def test_what_recurs_is_compiled() -> None:
    x = on_device(np.arange(11.0, dtype="float32"))
    key = (slice(2, 9), None)
    plan = ((7, 1), "n")
    for _ in range(index_table.limits.reads):
        indexing.get(x, key)
        assert (plan, x.shape, x.dtype) not in index_table.hot_reads
    indexing.get(x, key)
    assert (plan, x.shape, x.dtype) in index_table.hot_reads
    np.testing.assert_array_equal(indexing.get(x, key), np.arange(2.0, 9)[:, None])


def test_clear_forgets_and_reads_again() -> None:
    x = on_device(np.arange(12.0, dtype="float32"))
    for _ in range(index_table.limits.reads + 2):
        indexing.get(x, 3)
    assert index_table.hot_reads
    indexing.clear()
    assert not index_table.hot_reads
    assert float(indexing.get(x, 3)) == 3


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_table.limits, "entries", 3)
    table: dict[int, int] = {}
    for i in range(10):
        index_table.keep(table, i, i)
    assert list(table) == [7, 8, 9]


def test_selecting_all_returns_the_array_itself() -> None:
    x = on_device(FLOAT64)
    for key in (Ellipsis, (), slice(None), (slice(0, 4), Ellipsis), (slice(None), slice(-9, 9))):
        assert indexing.get(x, key) is x


def test_donating_write_reuses_the_buffer(compiled: None) -> None:
    for key in (3, slice(2, 5), slice(None, None, 2), Ellipsis, np.array([1, 2, 1]), np.arange(1024) > 3):
        x = copied(on_device(np.zeros(1024, "float32")))
        pointer = x.unsafe_buffer_pointer()
        new = write(x, key, 1.0, donate=True)
        assert new.unsafe_buffer_pointer() == pointer
        assert x.is_deleted()


def test_value_and_key_that_are_the_array_are_not_donated(compiled: None) -> None:
    values = np.array([2, 0, 1, 3], "int32")
    for key, value in ((Ellipsis, None), (None, 5), (None, None), (slice(None), None)):
        x = copied(on_device(values))
        key_of, value_of = (x if key is None else key), (x if value is None else value)
        want = values.copy()
        want[values if key is None else key] = values if value is None else value
        np.testing.assert_array_equal(write(x, key_of, value_of, donate=True), want)
        assert not x.is_deleted()


# --- out of range -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [4, -5, (0, 3), (0, 0, -6), np.int64(99), (Ellipsis, 5), (slice(None), 3)])
def test_integer_out_of_range_raises_eager_and_traced(key: object) -> None:
    x = on_device(FLOAT64)
    for run in (lambda x: indexing.get(x, key), lambda x: write(x, key, 0.0)):
        with pytest.raises(IndexOutOfBounds, match=r"x\[key\].*index .* of size"):
            run(x)
        with pytest.raises(IndexOutOfBounds):
            jax.jit(run)(x)
    np.testing.assert_array_equal(x, FLOAT64)


@pytest.mark.parametrize("index", [[4], [-5, 0], [[0, 1], [2, 300]]])
@pytest.mark.parametrize("served", [True, False])
def test_array_out_of_range_raises(index: list[int], served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not served:
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)
    x = on_device(np.arange(4.0))
    for key in (index, np.array(index), on_device(np.array(index, "int32")), (np.array(index),)):
        for _ in range(2):
            with pytest.raises(IndexOutOfBounds):
                indexing.get(x, key)
            with pytest.raises(IndexOutOfBounds):
                write(x, key, 1.0)


def test_scalar_array_counts_as_integer() -> None:
    x = on_device(FLOAT64)
    np.testing.assert_array_equal(indexing.get(x, on_device(np.array(-1, "int8"))), FLOAT64[-1])
    with pytest.raises(IndexOutOfBounds):
        indexing.get(x, on_device(np.array(4)))


MISSING = {
    "float32": np.nan,
    "complex64": np.nan,
    "int8": -128,
    "int64": -(2**63),
    "uint8": 0,
    "uint32": 0,
    "bool": False,
}


@pytest.mark.parametrize("dtype", MISSING)
def test_unchecked_read_out_of_range(dtype: str, unchecked: None) -> None:
    x = on_device(np.ones(3, dtype))
    index = np.array([0, 3, -3, -4, 2**31 - 1])
    want = np.array([1, MISSING[dtype], 1, MISSING[dtype], MISSING[dtype]], dtype)
    np.testing.assert_array_equal(indexing.get(x, index), want)
    traced = jax.jit(indexing.get)
    for kind in ("int32", "int64"):
        np.testing.assert_array_equal(traced(x, on_device(index.astype(kind))), want)
    assert np.array_equal(traced(x, on_device(np.array(7, "int32"))), want[1], equal_nan=dtype[0] in "fc")


@pytest.mark.parametrize("far", [2**32, 2**32 + 1, -(2**32), 2**63 - 1, -(2**63)])
def test_far_index_is_not_wrapped(far: int, unchecked: None) -> None:
    x = on_device(np.arange(3, dtype="int32"))
    index = on_device(np.array([far, 1]))
    np.testing.assert_array_equal(indexing.get(x, index), [-(2**31), 1])
    np.testing.assert_array_equal(write(x, index, 9), [0, 9, 2])
    if far > 0:
        index = on_device(np.array([far, 1], "uint64"))
        np.testing.assert_array_equal(indexing.get(x, index), [-(2**31), 1])
        np.testing.assert_array_equal(write(x, index, 9), [0, 9, 2])


def test_unchecked_write_out_of_range_is_dropped(unchecked: None) -> None:
    x = on_device(np.zeros((3, 4), "float32"))
    np.testing.assert_array_equal(write(x, (0, [5]), 1.0), np.zeros((3, 4)))
    traced = jax.jit(lambda x, i: write(x, (0, i), 1.0))
    np.testing.assert_array_equal(traced(x, jnp.array([5, -5])), np.zeros((3, 4)))
    np.testing.assert_array_equal(traced(x, jnp.array(-4)), np.eye(3, 4) * [[1], [0], [0]])


def test_index_into_empty_axis(unchecked: None) -> None:
    x = on_device(np.zeros((0, 2), "float32"))
    np.testing.assert_array_equal(indexing.get(x, np.array([0, 1])), np.full((2, 2), np.nan))
    assert write(x, np.array([0, 1]), 1.0).shape == (0, 2)


@pytest.mark.parametrize("served", [True, False])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_narrow_indices_reach_everything(dtype: str, served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not served:
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)
    size = 70_000 if dtype == "int16" else 300
    values = np.arange(size, dtype="int32")
    x = on_device(values)
    index = np.array([5, 100] if dtype == "uint8" else [-1, 5, -100], dtype)
    np.testing.assert_array_equal(indexing.get(x, on_device(index)), values[index])
    np.testing.assert_array_equal(jax.jit(indexing.get)(x, index), values[index])
    want = values.copy()
    want[index] = 7
    np.testing.assert_array_equal(write(x, on_device(index), 7), want)
    np.testing.assert_array_equal(jax.jit(lambda x, i: write(x, i, 7))(x, index), want)


@pytest.mark.parametrize("in_order", [("cpu",), ()])
def test_last_write_wins(in_order: tuple[str, ...], compiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_table.limits, "in_order", in_order)
    x = on_device(np.zeros(3, "float32"))
    np.testing.assert_array_equal(write(x, [1, 1, 0, -2, 1], np.arange(1.0, 6)), [3, 5, 0])
    big = on_device(np.zeros(7, "int32"))
    index = np.random.default_rng(0).integers(-7, 7, 5000)
    want = np.zeros(7, "int32")
    want[index] = np.arange(5000)
    np.testing.assert_array_equal(write(big, index, np.arange(5000)), want)


# --- masks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [8, 5000])
def test_mask_write_of_values_in_order(size: int, compiled: None) -> None:
    values = np.zeros(size, "float32")
    x = on_device(values)
    for every in (1, 2, 3, size + 1):
        mask = np.arange(size) % every == every - 1
        want = values.copy()
        want[mask] = np.arange(mask.sum())
        np.testing.assert_array_equal(write(x, mask, np.arange(mask.sum())), want)


@pytest.mark.parametrize("name", ["mask", "mask of one axis", "mask of all axes", "empty mask"])
def test_mask_read_off_the_host(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_table, "on_host", lambda d: False)
    check_read(KEYS[name])
    check_write(KEYS[name])


def test_traced_mask() -> None:
    values = np.arange(6.0, dtype="float32").reshape(2, 3)
    x, mask = on_device(values), on_device(values % 2 == 0)
    with pytest.raises(DataDependentShape, match="where"):
        jax.jit(indexing.get)(x, mask)
    got = jax.jit(lambda x, m: write(x, m, -1.0))(x, mask)
    np.testing.assert_array_equal(got, [[-1, 1, -1], [3, -1, 5]])
    got = jax.jit(lambda x, m, v: write(x, m, v))(x, mask, jnp.array([7.0, 8, 9]))
    np.testing.assert_array_equal(got, [[7, 1, 8], [3, 9, 5]])
    # Too few values: what has none keeps its own; never another one's.
    got = jax.jit(lambda x, m, v: write(x, m, v))(x, mask, jnp.array([7.0, 8]))
    np.testing.assert_array_equal(got, [[7, 1, 8], [3, 4, 5]])
    got = jax.jit(lambda x, m: write(x, (slice(None), m), 0))(x, jnp.array([True, False, True]))
    np.testing.assert_array_equal(got, [[0, 1, 0], [0, 4, 0]])
    got = jax.jit(lambda x, m: write(x, (m, 1), 9))(x, jnp.array([False, True]))
    np.testing.assert_array_equal(got, [[0, 1, 2], [3, 9, 5]])
    got = jax.jit(lambda x, m: write(x, m, 9))(x, jnp.array(False))
    np.testing.assert_array_equal(got, values)
    with pytest.raises(DataDependentShape):
        jax.jit(lambda x, m: write(x, (m, jnp.array([0, 1])), 0))(x, jnp.array([False, True]))


def test_mask_value_of_wrong_count() -> None:
    x = on_device(np.arange(6.0))
    for values in (np.ones(2), np.ones(4), np.ones((3, 3))):
        with pytest.raises(BroadcastError, match="value"):
            write(x, np.arange(6) % 2 == 0, values)


# --- bad keys and values ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (1.0, InvalidKey),
        ("a", InvalidKey),
        (np.array([1.0]), InvalidKey),
        ([[1, 2], [3]], InvalidKey),
        (slice(1.5), InvalidKey),
        ((Ellipsis, Ellipsis), InvalidKey),
        ((Ellipsis, np.array([0]), Ellipsis), InvalidKey),
        (slice(None, None, 0), InvalidArgument),
        ((0, 0, 0, 0), InvalidDimension),
        ((np.array([0]),) * 4, InvalidDimension),
        (np.ones((4, 2), bool), InvalidKey),
        ((0, np.ones(4, bool)), InvalidKey),
        (np.ones((4, 3, 5, 1), bool), InvalidDimension),
        ((np.array([0, 1]), np.array([0, 1, 2])), BroadcastError),
    ],
)
def test_bad_key(key: object, error: type[Exception]) -> None:
    x = on_device(FLOAT64)
    with pytest.raises(error, match=r"^x\[key\]: argument key: got"):
        indexing.get(x, key)
    with pytest.raises(error, match=r"^x\[key\] = value: argument key: got"):
        write(x, key, 1.0)
    with pytest.raises(error):
        jax.jit(lambda x: indexing.get(x, key))(x)


@pytest.mark.parametrize(
    ("dtype", "value", "error"),
    [
        ("int32", 1.5, DTypeMismatch),
        ("int32", 1.0, DTypeMismatch),
        ("int32", np.float32(1), DTypeMismatch),
        ("float32", 1j, DTypeMismatch),
        ("float32", np.ones(2, "complex64"), DTypeMismatch),
        ("bool", 1, DTypeMismatch),
        ("bool", np.ones(2, "int8"), DTypeMismatch),
        ("uint8", 300, ScalarOverflow),
        ("uint8", -1, ScalarOverflow),
        ("int64", 2**63, ScalarOverflow),
        ("float32", 2**2000, ScalarOverflow),
        ("float32", "a", UnsupportedDType),
        ("float32", None, UnsupportedDType),
        ("float32", np.zeros(3), BroadcastError),
        ("float32", np.zeros((2, 2)), BroadcastError),
        ("float32", np.zeros(0), BroadcastError),
    ],
)
@pytest.mark.parametrize("key", [slice(1, 3), [0, 1], np.array([True, False, True]), (slice(2), None)])
def test_bad_value(dtype: str, value: object, error: type[Exception], key: object) -> None:
    x = on_device(np.zeros(3, dtype))
    if isinstance(key, tuple) and isinstance(value, np.ndarray) and value.shape in ((2, 2), (3,)):
        value = np.zeros((3, 2))
    with pytest.raises(error, match=r"^x\[key\] = value: argument value: got"):
        write(x, key, value)
    with pytest.raises(error):
        jax.jit(lambda x: write(x, key, value))(x)
    np.testing.assert_array_equal(x, np.zeros(3))


def test_value_memory_of_the_caller_is_copied(compiled: None) -> None:
    x = on_device(np.zeros(1_000_000, "float32"))
    index, value = np.arange(1_000_000), np.ones(1_000_000, "float32")
    new, read = write(x, Ellipsis, value), indexing.get(x, index)
    scattered = write(x, index, value)
    value[:], index[:] = 7, 0
    assert float(new.min()) == float(new.max()) == 1
    assert float(scattered.min()) == float(scattered.max()) == 1
    assert read.shape == (1_000_000,)


def test_float_beyond_float32_becomes_infinity_without_warning() -> None:
    x = on_device(np.zeros(2, "float32"))
    np.testing.assert_array_equal(write(x, 0, 1e300), [np.inf, 0])


def test_gradient_of_float64_with_static_keys_under_plain_jax() -> None:
    gradient = jax.grad(lambda x: indexing.get(x, 1) * indexing.get(x, slice(2, 4))[1])(on_device(np.arange(4.0)))
    assert gradient.dtype == np.float64
    np.testing.assert_array_equal(gradient, [0, 3, 0, 1])


# --- several devices --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis_type", [jax.sharding.AxisType.Auto, jax.sharding.AxisType.Explicit])
@pytest.mark.parametrize("name", ["integer", "slice", "reversed", "array and whole axes", "mask of one axis"])
def test_sharded_array(name: str, axis_type: jax.sharding.AxisType) -> None:
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    x = jax.device_put(FLOAT64.astype("float32"), sharding)
    key = KEYS[name]
    got = jax.block_until_ready(indexing.get(x, key))
    np.testing.assert_array_equal(got, FLOAT64.astype("float32")[key])
    want = FLOAT64.astype("float32")
    want[key] = 5
    new = jax.block_until_ready(write(x, key, 5.0))
    np.testing.assert_array_equal(new, want)
    assert new.sharding == sharding


def test_result_stays_on_the_device_of_the_array(monkeypatch: pytest.MonkeyPatch) -> None:
    device = jax.devices()[3]
    x = jax.device_put(FLOAT64.astype("float32"), device)
    for _ in range(2):
        for key in (1, slice(1, 3), (0, Ellipsis), np.array([1]), np.arange(4) > 1):
            assert indexing.get(x, key).devices() == {device}
            assert write(x, key, 1.0).devices() == {device}
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)


def test_indices_committed_elsewhere_are_refused() -> None:
    x, index = (jax.device_put(np.arange(3), device) for device in jax.devices()[1:3])
    with pytest.raises(ValueError, match="incompatible devices"):
        indexing.get(x, index)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32"])
@pytest.mark.parametrize("compiled", [True, False])
def test_far_positions_are_out_of_range(dtype: str, compiled: bool, unchecked: None) -> None:
    # JAX narrows indices to 32 bits, where 2**32 + 1 becomes 1.
    far = [0, 4, *([2**32, 2**32 + 1, 2**40 + 2, 2**63 - 1] if dtype.endswith("64") else [2**32 - 1, 2**31])]
    if dtype == "int64":
        far += [-(2**32), -(2**32) + 1, -(2**63)]
    index = xp.asarray(far, dtype=getattr(xp, dtype))
    run = xp.jit if compiled else lambda f: f

    def write(x: xp.Array, i: xp.Array) -> None:
        x[i] = 9.0

    def write_row(x: xp.Array, i: xp.Array) -> None:
        x[1, i] = 9.0

    for kind in ("float32", "float64"):
        x = xp.arange(5, dtype=getattr(xp, kind))
        outside = [np.nan] * (len(far) - 2)
        np.testing.assert_array_equal(np.asarray(run(lambda x, i: x[i])(x, index)), [0.0, 4.0, *outside])
        rows = xp.stack([x, x])
        np.testing.assert_array_equal(np.asarray(run(lambda x, i: x[0, i])(rows, index)), [0.0, 4.0, *outside])
        np.testing.assert_array_equal(np.asarray(run(lambda x, i: x[i[2]])(x, index)), np.nan)
        added = run(lambda x, i: x.at[i].add(10.0))(x, index)
        np.testing.assert_array_equal(np.asarray(added), [10.0, 1.0, 2.0, 3.0, 14.0])
        run(write)(x, index)
        np.testing.assert_array_equal(np.asarray(x), [9.0, 1.0, 2.0, 3.0, 9.0])
        run(write_row)(rows, index)
        np.testing.assert_array_equal(np.asarray(rows), [[0.0, 1.0, 2.0, 3.0, 4.0], [9.0, 1.0, 2.0, 3.0, 9.0]])
