"""Problems that users of JAX and of wrappers around it reported in public, as tests: the array object and indexing.

Each test covers the kind, not only the input of the report. Expected values are literals or NumPy in float64.
"""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat
import array_api_extra
import numpy as np
import pytest

import rtx_jax as xp

INTEGER_INDEX_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def same(actual: xp.Array, expected: object) -> None:
    """Equal values and shape; NaN equals NaN."""
    wanted = np.asarray(expected)
    assert tuple(actual.shape) == wanted.shape
    np.testing.assert_array_equal(np.asarray(actual), wanted)


# Augmented assignment rebound the name: jax-ml/jax#226


IN_PLACE: dict[str, Callable[[xp.Array, object], xp.Array]] = {
    "+=": lambda a, b: a.__iadd__(b),
    "-=": lambda a, b: a.__isub__(b),
    "*=": lambda a, b: a.__imul__(b),
    "/=": lambda a, b: a.__itruediv__(b),
    "//=": lambda a, b: a.__ifloordiv__(b),
    "%=": lambda a, b: a.__imod__(b),
    "**=": lambda a, b: a.__ipow__(b),
}
EXPECTED_IN_PLACE = {
    "+=": [7.0, 11.0],
    "-=": [3.0, 7.0],
    "*=": [10.0, 18.0],
    "/=": [2.5, 4.5],
    "//=": [2.0, 4.0],
    "%=": [1.0, 1.0],
    "**=": [25.0, 81.0],
}


@pytest.mark.parametrize("operand", ["scalar", "array"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sign", IN_PLACE)
def test_augmented_assignment_changes_the_object_that_all_names_share(sign: str, dtype: str, operand: str) -> None:
    array = xp.asarray([5.0, 9.0], dtype=dtype)
    other_name = array
    value = 2.0 if operand == "scalar" else xp.asarray([2.0, 2.0], dtype=dtype)
    assert IN_PLACE[sign](array, value) is array
    same(other_name, EXPECTED_IN_PLACE[sign])
    assert array.dtype == np.dtype(dtype)


def test_augmented_bitwise_assignment_keeps_the_object() -> None:
    array = xp.asarray([12, 10])
    other_name = array
    array &= 6
    array |= 1
    array ^= 3
    array <<= 2
    array >>= 1
    assert array is other_name
    same(array, [((12 & 6 | 1) ^ 3) * 2, ((10 & 6 | 1) ^ 3) * 2])


def test_a_loop_over_parameters_updates_them() -> None:
    parameters = [xp.ones(2), xp.ones((3, 1))]
    for parameter in parameters:
        parameter -= 0.25
    same(parameters[0], [0.75, 0.75])
    same(parameters[1], [[0.75], [0.75], [0.75]])


def test_augmented_matrix_product_keeps_the_object() -> None:
    array = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    other_name = array
    array @= xp.asarray([[0.0, 1.0], [1.0, 0.0]])
    assert array is other_name
    same(array, [[2.0, 1.0], [4.0, 3.0]])


# A scatter-add counted repeated indices: jax-ml/jax#9344


@pytest.mark.parametrize("index_dtype", ["int32", "int64"])
def test_repeated_indices_count_once_and_the_last_value_wins(index_dtype: str) -> None:
    def at(*positions: int) -> xp.Array:
        return xp.asarray(positions, dtype=index_dtype)

    x = xp.zeros(2)
    x[at(0, 1, 1)] += 1.0
    same(x, [1.0, 1.0])
    y = xp.ones(2)
    y[at(0, 0)] *= 2.0
    same(y, [2.0, 1.0])
    y[at(1, 1)] -= xp.asarray([5.0, 3.0])
    same(y, [2.0, -2.0])
    z = xp.zeros(3)
    z[at(1, 1, 1)] = xp.asarray([1.0, 2.0, 3.0])
    same(z, [0.0, 3.0, 0.0])
    m = xp.zeros((2, 2))
    m[at(0, 0), at(1, -1)] = xp.asarray([1.0, 2.0])
    same(m, [[0.0, 2.0], [0.0, 0.0]])


def test_repeated_rows_count_once() -> None:
    m = xp.zeros((3, 2))
    m[xp.asarray([2, 2, 0])] += xp.asarray([[1.0, 1.0], [2.0, 4.0], [3.0, 3.0]])
    same(m, [[3.0, 3.0], [0.0, 0.0], [2.0, 4.0]])


# Reads past the end returned the last element, writes were dropped: jax-ml/jax#278, #4383, #11277, #9126, #7595, #21708


OUT_OF_RANGE: dict[str, Callable[[], object]] = {
    "end": lambda: (10,),
    "before the start": lambda: (-11,),
    "array": lambda: (xp.asarray([13]),),
    "negative array": lambda: (xp.asarray([0, -11]),),
    "list": lambda: ([0, 10],),
    "NumPy array": lambda: (np.asarray([3, 10]),),
    "NumPy integer": lambda: (np.int64(10),),
    "0-d array": lambda: (xp.asarray(10),),
    "with a slice": lambda: (10, slice(None)),
    "after a slice": lambda: (slice(None), 10),
    "after Ellipsis": lambda: (..., 10),
    "array after a slice": lambda: (slice(None), xp.asarray([0, 10])),
    "mixed": lambda: (3, xp.asarray([0, 10])),
}


def _key(parts: object) -> object:
    return parts[0] if len(parts) == 1 else parts


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_read_out_of_range_raises(name: str) -> None:
    matrix = xp.ones((10, 10))
    with pytest.raises(IndexError):
        matrix[_key(OUT_OF_RANGE[name]())]


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_a_write_out_of_range_raises_and_changes_nothing(name: str) -> None:
    matrix = xp.ones((10, 10))
    with pytest.raises(IndexError):
        matrix[_key(OUT_OF_RANGE[name]())] = 5.0
    same(matrix, np.ones((10, 10)))


def test_out_of_range_under_jit_never_reaches_another_element() -> None:
    def write(array: xp.Array, column: xp.Array) -> xp.Array:
        array = xp.asarray(array, copy=True)
        array[0, column] = 1.0
        return array

    def read(array: xp.Array, column: xp.Array) -> xp.Array:
        return array[0, column]

    matrix = xp.zeros((3, 4))
    compiled = xp.jit(write)
    same(compiled(matrix, xp.asarray([5])), np.zeros((3, 4)))
    same(compiled(matrix, xp.asarray([-5])), np.zeros((3, 4)))
    same(compiled(matrix, xp.asarray([-1])), [[0.0, 0.0, 0.0, 1.0], [0.0] * 4, [0.0] * 4])
    assert np.isnan(np.asarray(xp.jit(read)(matrix, xp.asarray([4]))))


# Host memory was shared in one direction: jax-ml/jax#37830, data-apis/array-api-extra#506


def aligned(length: int) -> np.ndarray:
    """A float32 array that starts on a boundary of 64 bytes, which makes XLA on CPU share it where it may."""
    raw = np.empty(4 * length + 64, np.uint8)
    offset = -raw.ctypes.data % 64
    view = raw[offset : offset + 4 * length].view(np.float32)
    view[:] = np.arange(length)
    return view


DOORS: dict[str, Callable[[np.ndarray], xp.Array]] = {
    "asarray": xp.asarray,
    "asarray, copy": lambda host: xp.asarray(host, copy=True),
    "asarray, dtype": lambda host: xp.asarray(host, dtype=xp.float32),
    "from_dlpack": xp.from_dlpack,
    "from_dlpack, copy": lambda host: xp.from_dlpack(host, copy=True),
    "arithmetic": lambda host: xp.zeros(host.shape, dtype=xp.float32) + host,
}


@pytest.mark.parametrize("length", [3, 100, 400_000])
@pytest.mark.parametrize("door", DOORS)
def test_an_array_and_the_host_memory_that_it_came_from_are_independent(door: str, length: int) -> None:
    host = aligned(length)
    array = DOORS[door](host)
    host[0] = -1.0
    assert float(array[0]) == 0.0
    array[1] = 77.0
    assert host[1] == 1.0
    assert float(array[1]) == 77.0


@pytest.mark.parametrize("length", [3, 100, 400_000])
def test_a_numpy_view_keeps_its_values_when_the_array_is_written(length: int) -> None:
    array = xp.arange(length)
    view = np.asarray(array, copy=False)
    assert not view.flags.writeable
    array[0] = -1
    np.testing.assert_array_equal(view, np.arange(length))
    assert int(array[0]) == -1


# Code that writes into what it got from an array must reach it or fail: scipy.ndimage with output=


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "bfloat16", "bool"])
def test_a_write_to_a_conversion_is_not_lost_in_silence(dtype: str) -> None:
    array = xp.ones((4, 3), dtype=dtype)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(array)[0, 0] = 0
    host = np.array(array)
    host[...] = 0
    same(xp.astype(array, xp.float32), np.ones((4, 3)))


def test_broadcast_results_have_cells_of_their_own() -> None:
    cell = xp.zeros(())
    wide = xp.broadcast_to(cell, (2,))
    wide[0] = 1.0
    same(wide, [1.0, 0.0])
    same(cell, 0.0)
    left, right = xp.broadcast_arrays(xp.zeros((1, 2)), xp.zeros((2, 1)))
    left[0, 0] = 1.0
    same(left, [[1.0, 0.0], [0.0, 0.0]])
    same(right, [[0.0, 0.0], [0.0, 0.0]])
    grid, _ = xp.meshgrid(xp.zeros(2), xp.zeros(2))
    grid[1, 1] = 3.0
    same(grid, [[0.0, 0.0], [0.0, 3.0]])


# Helper libraries took the array for a lazy, read-only one: data-apis/array-api-extra#144, data-apis/array-api#845


def test_helper_libraries_see_an_eager_array_that_can_be_written() -> None:
    x = xp.asarray([0.0, 1.0, 2.0])
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.is_writeable_array(x)
    assert not array_api_compat.is_lazy_array(x)
    assert not array_api_compat.is_jax_array(x)
    assert array_api_compat.array_namespace(x) is xp
    assert array_api_compat.array_namespace(x, xp.ones(2), 1.0) is xp
    assert array_api_compat.size(x) == 3
    assert array_api_compat.device(x) == x.device
    same(array_api_compat.to_device(x, x.device), [0.0, 1.0, 2.0])


@pytest.mark.parametrize("copy", [None, True, False])
def test_at_of_the_helper_library_writes_in_place_where_it_may(copy: bool | None) -> None:
    x = xp.asarray([0.0, 1.0, 2.0])
    result = array_api_extra.at(x)[x < 1.5].set(9.0, copy=copy)
    same(result, [9.0, 9.0, 2.0])
    assert (result is x) == (copy is not True)
    same(array_api_extra.at(x, 2).add(1.0, copy=True), [*np.asarray(x)[:2], 3.0])


# A tracer stayed behind in an object that a traced function wrote: jax-ml/jax#4312, #3086, #4714


def test_no_tracer_stays_behind_after_jit() -> None:
    argument, captured = xp.asarray([1.0, 2.0]), xp.zeros(2)

    def function(v: xp.Array) -> xp.Array:
        v[0] = 7.0
        captured[1] = v[0]
        return v * 2.0

    same(xp.jit(function)(argument), [14.0, 4.0])
    same(argument, [7.0, 2.0])
    same(captured, [0.0, 7.0])
    same(argument + captured, [7.0, 9.0])


TRANSFORMS: dict[str, Callable[[Callable[[xp.Array], xp.Array]], Callable[[xp.Array], object]]] = {
    "jit": xp.jit,
    "grad": lambda f: xp.grad(lambda v: xp.sum(f(v))),
    "value_and_grad": lambda f: xp.value_and_grad(lambda v: xp.sum(f(v))),
    "vmap": xp.vmap,
    "checkpoint": xp.checkpoint,
    "jvp": lambda f: lambda v: xp.jvp(f, (v,), (xp.ones_like(v),)),
    "vjp": lambda f: lambda v: xp.vjp(f, v)[0],
}


@pytest.mark.parametrize("outcome", ["returns", "raises"])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_handles_hold_numbers_whatever_a_transformed_function_does(name: str, outcome: str) -> None:
    argument, captured = xp.asarray([1.0, 2.0]), xp.zeros(2)

    def function(v: xp.Array) -> xp.Array:
        v[...] = v * 3.0
        captured[...] = captured + 1.0
        if outcome == "raises":
            raise LookupError("on purpose")
        return v * 2.0

    try:
        TRANSFORMS[name](function)(argument)
    except (LookupError, TypeError) as error:
        assert outcome == "raises" or isinstance(error, xp.errors.TracedMutation)
    assert np.asarray(argument).tolist() in ([1.0, 2.0], [3.0, 6.0])
    assert np.asarray(captured).tolist() in ([0.0, 0.0], [1.0, 1.0])
    argument += captured
    assert np.isfinite(np.asarray(argument)).all()


# Narrow index types overflowed while negative positions were normalised: jax-ml/jax#31396, #16836, openxla/xla#48718


@pytest.mark.parametrize("position", [-1, 5, -128])
@pytest.mark.parametrize("dtype", INTEGER_INDEX_DTYPES)
def test_every_integer_type_is_an_index(dtype: str, position: int) -> None:
    length = 300
    if position < 0 and dtype.startswith("u"):
        position = 200
    x = xp.arange(length)
    indices = xp.asarray([position], dtype=dtype)
    wanted = position % length
    same(xp.take(x, indices, axis=0), [wanted])
    same(xp.take_along_axis(x, indices, axis=0), [wanted])
    same(x[indices], [wanted])
    assert int(x[xp.asarray(position, dtype=dtype)]) == wanted
    same(x[np.asarray([position], dtype)], [wanted])
    assert int(x[np.dtype(dtype).type(position)]) == wanted
    y = xp.zeros(length)
    y[indices] = 5.0
    assert float(y[wanted]) == 5.0
    assert float(xp.sum(y)) == 5.0
    same(xp.jit(lambda a, i: a[i])(x, indices), [wanted])


def test_a_16_bit_index_into_a_long_axis() -> None:
    x = xp.arange(70_000)
    same(x[xp.asarray([-1, 32_767, -32_768], dtype=xp.int16)], [69_999, 32_767, 37_232])
    same(x[xp.asarray([65_535], dtype=xp.uint16)], [65_535])
    same(xp.take(x, xp.asarray([-1], dtype=xp.int8)), [69_999])


# Estimators stopped at item assignment: scikit-learn/scikit-learn#33721, #29647


def test_scikit_learn_estimators_accept_the_arrays() -> None:
    sklearn = pytest.importorskip("sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.metrics import r2_score
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

    data = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    data[:, 3] = 1.0  # the scale of a constant column is replaced by an assignment through a mask
    target = data @ np.ones(4, np.float32)
    jobs: dict[str, Callable[[object, object], object]] = {
        "minmax": lambda a, b: MinMaxScaler().fit_transform(a),
        "standard": lambda a, b: StandardScaler().fit_transform(a),
        "normalizer": lambda a, b: Normalizer().fit_transform(a),
        "ridge": lambda a, b: Ridge(solver="svd").fit(a, b).predict(a),
        "rbf": lambda a, b: rbf_kernel(a, a),
        "r2": lambda a, b: r2_score(b, b * 0.9),
    }
    for name, job in jobs.items():
        wanted = job(data, target)
        with sklearn.config_context(array_api_dispatch=True):
            result = job(xp.asarray(data), xp.asarray(target))
        assert isinstance(result, xp.Array) or name == "r2"
        np.testing.assert_allclose(np.asarray(result), np.asarray(wanted), rtol=2e-3, atol=2e-4, err_msg=name)
