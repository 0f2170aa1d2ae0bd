"""Arrays over eight virtual CPU devices: every function, updates, and what may be mixed.

Each call is waited for: many collectives in flight on few cores can block each other on old versions of JAX.
"""

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import rtx_jax as xp
from rtx_jax.errors import DeviceMismatch, IndexOutOfBounds

CPUS = jax.devices("cpu")
MESH = jax.make_mesh((4, 2), ("r", "c"), axis_types=(AxisType.Auto,) * 2, devices=CPUS)
ROWS, COLUMNS, BOTH, WHOLE = (
    NamedSharding(MESH, PartitionSpec(*spec)) for spec in (("r", None), (None, "c"), ("r", "c"), ())
)
HOST = (np.arange(32.0).reshape(8, 4) * 7 % 11 - 5) / 4
SQUARE = HOST[:4] @ HOST[:4].T + 40 * np.eye(4)
COUNTS = (np.arange(32).reshape(8, 4) * 5) % 13
MASK = HOST > 0


def _spread(host, sharding=BOTH):
    return xp.asarray(host, device=sharding)


def _compare(got, expected, rtol=1e-13):
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            _compare(g, e, rtol)
        return
    got.block_until_ready()
    expected = np.asarray(expected)
    assert isinstance(got, xp.Array)
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(got), expected, rtol=rtol, atol=1e-13)


# Functions of (namespace, x, y); x and y are real, (8, 4). NumPy's function of the same name is the reference.
REAL = {
    "abs": lambda m, x, y: m.abs(x),
    "acos": lambda m, x, y: m.acos(x / 4),
    "acosh": lambda m, x, y: m.acosh(x + 3),
    "add": lambda m, x, y: m.add(x, y),
    "asin": lambda m, x, y: m.asin(x / 4),
    "asinh": lambda m, x, y: m.asinh(x),
    "atan": lambda m, x, y: m.atan(x),
    "atan2": lambda m, x, y: m.atan2(x, y),
    "atanh": lambda m, x, y: m.atanh(x / 4),
    "ceil": lambda m, x, y: m.ceil(x),
    "clip": lambda m, x, y: m.clip(x, -0.5, 0.75),
    "copysign": lambda m, x, y: m.copysign(x, y),
    "cos": lambda m, x, y: m.cos(x),
    "cosh": lambda m, x, y: m.cosh(x),
    "divide": lambda m, x, y: m.divide(x, y),
    "equal": lambda m, x, y: m.equal(x, y),
    "exp": lambda m, x, y: m.exp(x),
    "expm1": lambda m, x, y: m.expm1(x),
    "floor": lambda m, x, y: m.floor(x),
    "floor_divide": lambda m, x, y: m.floor_divide(x, y),
    "greater": lambda m, x, y: m.greater(x, y),
    "greater_equal": lambda m, x, y: m.greater_equal(x, y),
    "hypot": lambda m, x, y: m.hypot(x, y),
    "isfinite": lambda m, x, y: m.isfinite(x),
    "isinf": lambda m, x, y: m.isinf(x),
    "isnan": lambda m, x, y: m.isnan(x),
    "less": lambda m, x, y: m.less(x, y),
    "less_equal": lambda m, x, y: m.less_equal(x, y),
    "log": lambda m, x, y: m.log(x + 3),
    "log10": lambda m, x, y: m.log10(x + 3),
    "log1p": lambda m, x, y: m.log1p(x / 4),
    "log2": lambda m, x, y: m.log2(x + 3),
    "logaddexp": lambda m, x, y: m.logaddexp(x, y),
    "maximum": lambda m, x, y: m.maximum(x, y),
    "minimum": lambda m, x, y: m.minimum(x, y),
    "multiply": lambda m, x, y: m.multiply(x, y),
    "negative": lambda m, x, y: m.negative(x),
    "nextafter": lambda m, x, y: m.nextafter(x, y),
    "not_equal": lambda m, x, y: m.not_equal(x, y),
    "positive": lambda m, x, y: m.positive(x),
    "pow": lambda m, x, y: m.pow(x + 3, y),
    "reciprocal": lambda m, x, y: m.reciprocal(x + 3),
    "remainder": lambda m, x, y: m.remainder(x, y),
    "round": lambda m, x, y: m.round(x),
    "sign": lambda m, x, y: m.sign(x),
    "signbit": lambda m, x, y: m.signbit(x),
    "sin": lambda m, x, y: m.sin(x),
    "sinh": lambda m, x, y: m.sinh(x),
    "sqrt": lambda m, x, y: m.sqrt(x + 3),
    "square": lambda m, x, y: m.square(x),
    "subtract": lambda m, x, y: m.subtract(x, y),
    "tan": lambda m, x, y: m.tan(x),
    "tanh": lambda m, x, y: m.tanh(x),
    "trunc": lambda m, x, y: m.trunc(x),
    "real": lambda m, x, y: m.real(x * (1 + 2j)),
    "imag": lambda m, x, y: m.imag(x * (1 + 2j)),
    "conj": lambda m, x, y: m.conj(x * (1 + 2j)),
    "all": lambda m, x, y: m.all(x > -9),
    "any": lambda m, x, y: m.any(x > 1, axis=1),
    "diff": lambda m, x, y: m.diff(x, axis=0),
    "cumulative_sum": lambda m, x, y: m.cumulative_sum(x, axis=0),
    "cumulative_prod": lambda m, x, y: m.cumulative_prod(x, axis=1),
    "max": lambda m, x, y: m.max(x, axis=0),
    "mean": lambda m, x, y: m.mean(x, axis=1),
    "min": lambda m, x, y: m.min(x),
    "prod": lambda m, x, y: m.prod(x, axis=0),
    "std": lambda m, x, y: m.std(x),
    "sum": lambda m, x, y: m.sum(x, axis=0, keepdims=True),
    "var": lambda m, x, y: m.var(x, axis=1),
    "argmax": lambda m, x, y: m.argmax(x, axis=0),
    "argmin": lambda m, x, y: m.argmin(x),
    "count_nonzero": lambda m, x, y: m.count_nonzero(x > 0, axis=0),
    "nonzero": lambda m, x, y: m.nonzero(x > 0),
    "searchsorted": lambda m, x, y: m.searchsorted(m.sort(x[:, 0]), y[0, :]),
    "where": lambda m, x, y: m.where(x > y, x, y),
    "argsort": lambda m, x, y: m.argsort(x[:, 0] + m.arange(8) / 64),
    "sort": lambda m, x, y: m.sort(x, axis=0),
    "unique_values": lambda m, x, y: m.sort(m.unique_values(x)),
    "isin": lambda m, x, y: m.isin(x, m.asarray([0.25, 1.0])),
    "broadcast_arrays": lambda m, x, y: m.broadcast_arrays(x, y[0]),
    "broadcast_to": lambda m, x, y: m.broadcast_to(x, (2, 8, 4)),
    "concat": lambda m, x, y: m.concat([x, y], axis=0),
    "expand_dims": lambda m, x, y: m.expand_dims(x, axis=1),
    "flip": lambda m, x, y: m.flip(x, axis=0),
    "moveaxis": lambda m, x, y: m.moveaxis(x, 0, 1),
    "permute_dims": lambda m, x, y: m.permute_dims(x, (1, 0)),
    "repeat": lambda m, x, y: m.repeat(x, 2, axis=0),
    "reshape": lambda m, x, y: m.reshape(x, (4, 8)),
    "roll": lambda m, x, y: m.roll(x, 3, axis=0),
    "squeeze": lambda m, x, y: m.squeeze(x[:, :1], axis=1),
    "stack": lambda m, x, y: m.stack([x, y], axis=1),
    "tile": lambda m, x, y: m.tile(x, (2, 1)),
    "unstack": lambda m, x, y: m.unstack(x, axis=1),
    "matmul": lambda m, x, y: m.matmul(x, m.permute_dims(y, (1, 0))),
    "matrix_transpose": lambda m, x, y: m.matrix_transpose(x),
    "tensordot": lambda m, x, y: m.tensordot(x, y, axes=2),
    "vecdot": lambda m, x, y: m.vecdot(x, y),
    "take": lambda m, x, y: m.take(x, m.asarray([7, 0, 3]), axis=0),
    "take_along_axis": lambda m, x, y: m.take_along_axis(x, m.argsort(y, axis=0), axis=0),
    "meshgrid": lambda m, x, y: m.meshgrid(x[:, 0], y[0, :]),
    "tril": lambda m, x, y: m.tril(x),
    "triu": lambda m, x, y: m.triu(x, k=1),
    "astype": lambda m, x, y: m.astype(x, m.float32),
    "ones_like": lambda m, x, y: m.ones_like(x),
    "zeros_like": lambda m, x, y: m.zeros_like(x),
    "full_like": lambda m, x, y: m.full_like(x, 2.5),
    "linalg.cross": lambda m, x, y: m.linalg.cross(x[:, :3], y[:, 1:]),
    "linalg.matrix_norm": lambda m, x, y: m.linalg.matrix_norm(x),
    "linalg.vector_norm": lambda m, x, y: m.linalg.vector_norm(x, axis=1),
    "linalg.svdvals": lambda m, x, y: m.linalg.svdvals(x),
    "linalg.outer": lambda m, x, y: m.linalg.outer(x[:, 0], y[:, 1]),
    "linalg.trace": lambda m, x, y: m.linalg.trace(x),
    "linalg.diagonal": lambda m, x, y: m.linalg.diagonal(x),
    "linalg.matrix_rank": lambda m, x, y: m.linalg.matrix_rank(x),
    "linalg.pinv": lambda m, x, y: m.linalg.pinv(x),
    "fft.fft": lambda m, x, y: m.fft.fft(x, axis=0),
    "fft.rfft": lambda m, x, y: m.fft.rfft(x, axis=0),
    "fft.ifftn": lambda m, x, y: m.fft.ifftn(x),
    "fft.fftshift": lambda m, x, y: m.fft.fftshift(x),
    # Operators, indexing.
    "+": lambda m, x, y: x + y,
    "scalar": lambda m, x, y: 2.0 - x * 3,
    "@": lambda m, x, y: x.T @ y,
    "x[i]": lambda m, x, y: x[3],
    "x[i, j]": lambda m, x, y: x[5, 2],
    "x[a:b]": lambda m, x, y: x[2:6, 1:],
    "x[::-2]": lambda m, x, y: x[::-2],
    "x[array]": lambda m, x, y: x[m.asarray([7, -1, 2])],
    "x[mask]": lambda m, x, y: x[x > 0],
    "x[None]": lambda m, x, y: x[None, ..., 0],
}

INTEGER = {
    "bitwise_and": lambda m, x, y: m.bitwise_and(x, y),
    "bitwise_invert": lambda m, x, y: m.bitwise_invert(x),
    "bitwise_left_shift": lambda m, x, y: m.bitwise_left_shift(x, y),
    "bitwise_or": lambda m, x, y: m.bitwise_or(x, y),
    "bitwise_right_shift": lambda m, x, y: m.bitwise_right_shift(x, y),
    "bitwise_xor": lambda m, x, y: m.bitwise_xor(x, y),
    "logical_and": lambda m, x, y: m.logical_and(x > 3, y > 3),
    "logical_not": lambda m, x, y: m.logical_not(x > 3),
    "logical_or": lambda m, x, y: m.logical_or(x > 3, y > 3),
    "logical_xor": lambda m, x, y: m.logical_xor(x > 3, y > 3),
    "unique_counts": lambda m, x, y: tuple(m.unique_counts(x)),
    "sum": lambda m, x, y: m.sum(x, axis=0),
}

MATRIX = {
    "linalg.cholesky": lambda m, a: m.linalg.cholesky(a),
    "linalg.det": lambda m, a: m.linalg.det(a),
    "linalg.inv": lambda m, a: m.linalg.inv(a),
    "linalg.solve": lambda m, a: m.linalg.solve(a, a[:, 0]),
    "linalg.eigvalsh": lambda m, a: m.linalg.eigvalsh(a),
    "linalg.matrix_power": lambda m, a: m.linalg.matrix_power(a / 40, 3),
    "linalg.slogdet": lambda m, a: tuple(m.linalg.slogdet(a)),
}


@pytest.mark.parametrize("sharding", [ROWS, BOTH], ids=["rows", "both"])
@pytest.mark.parametrize("name", REAL)
def test_real_functions(name, sharding):
    x, y = _spread(HOST, sharding), _spread(HOST[::-1] * 1.25 + 0.3, sharding)
    with np.errstate(all="ignore"):
        expected = REAL[name](np, HOST, HOST[::-1] * 1.25 + 0.3)
    _compare(REAL[name](xp, x, y), expected, rtol=1e-11)


@pytest.mark.parametrize("name", INTEGER)
def test_integer_functions(name):
    x, y = _spread(COUNTS), _spread(COUNTS[::-1].copy())
    _compare(INTEGER[name](xp, x, y), INTEGER[name](np, COUNTS, COUNTS[::-1]))


@pytest.mark.parametrize("name", MATRIX)
def test_functions_of_a_matrix(name):
    _compare(MATRIX[name](xp, _spread(SQUARE, ROWS)), MATRIX[name](np, SQUARE), rtol=1e-10)


@pytest.mark.parametrize("name", ["qr", "svd", "eigh"])
def test_factors_multiply_to_the_matrix(name):
    parts = [np.asarray(part.block_until_ready()) for part in getattr(xp.linalg, name)(_spread(SQUARE, ROWS))]
    product = {
        "qr": lambda q, r: q @ r,
        "svd": lambda u, s, v: u @ np.diag(s) @ v,
        "eigh": lambda w, v: v @ np.diag(w) @ v.T,
    }[name](*parts)
    np.testing.assert_allclose(product, SQUARE, rtol=1e-12)


# --- where results live -------------------------------------------------------------------------------------------


def _placed(x, sharding):
    assert x.sharding.is_equivalent_to(sharding, x.ndim), x.sharding
    assert x.device == x.sharding


@pytest.mark.parametrize("sharding", [ROWS, COLUMNS, BOTH], ids=["rows", "columns", "both"])
def test_elementwise_results_keep_the_sharding(sharding):
    x = _spread(HOST, sharding)
    for result in (xp.sin(x), x + x, x * 2.0, x > 0, xp.where(x > 0, x, 0.0), xp.astype(x, xp.float32)):
        _placed(result.block_until_ready(), sharding)


@pytest.mark.parametrize("make", ["zeros_like", "ones_like", "empty_like"])
def test_like_functions_keep_the_sharding(make):
    _placed(getattr(xp, make)(_spread(HOST)), BOTH)
    _placed(xp.full_like(_spread(HOST), 3.0), BOTH)


def test_creation_with_a_sharding():
    for x in (
        xp.zeros((8, 4), device=BOTH),
        xp.ones((8, 4), device=BOTH),
        xp.full((8, 4), 2.5, device=BOTH),
        xp.empty((8, 4), device=BOTH),
        xp.eye(8, 4, device=BOTH),
        xp.asarray(HOST, device=BOTH),
        xp.asarray(HOST.tolist(), device=BOTH),
    ):
        _placed(x, BOTH)
    line = NamedSharding(MESH, PartitionSpec("r"))
    _placed(xp.arange(8, device=line), line)
    _placed(xp.linspace(0, 1, 8, device=line), line)


def test_moving():
    x = _spread(HOST, ROWS)
    y = x.to_device(COLUMNS)
    _placed(y, COLUMNS)
    _compare(y, HOST)
    one = y.to_device("cpu:3")
    assert one.device == CPUS[3]
    _compare(one, HOST)
    _compare(xp.asarray(one, device=BOTH), HOST)


def test_out_of_range_is_found_on_shardings_too():
    x = _spread(HOST)
    with pytest.raises(IndexOutOfBounds):
        x[8]
    with pytest.raises(IndexOutOfBounds):
        x[xp.asarray([0, 9])]


# --- updates ------------------------------------------------------------------------------------------------------

UPDATES = {
    "x[i] = v": lambda x: x.__setitem__(3, 1.5),
    "x[i, j] = v": lambda x: x.__setitem__((5, 2), -7.0),
    "x[a:b] = v": lambda x: x.__setitem__(slice(2, 6), 0.5),
    "x[:, j] = v": lambda x: x.__setitem__((slice(None), 1), np.arange(8.0)),
    "x[array] = v": lambda x: x.__setitem__(np.array([7, 0, 7]), np.arange(12.0).reshape(3, 4)),
    "x[mask] = v": lambda x: x.__setitem__(MASK, 9.0),
    "x[...] = v": lambda x: x.__setitem__(..., HOST * 3),
    "x += v": lambda x: x.__iadd__(2.0),
    "x *= y": lambda x: x.__imul__(HOST),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("owned", [True, False], ids=["owned", "shared"])
def test_updates_keep_sharding_and_values(name, owned):
    x, host = _spread(HOST), HOST.copy()
    if owned:
        x = xp.positive(x).block_until_ready()
    kept = x.jax if not owned else None
    UPDATES[name](x)
    UPDATES[name](host)
    _compare(x, host)
    _placed(x, BOTH)
    if kept is not None:
        np.testing.assert_array_equal(np.asarray(kept), HOST)


@pytest.mark.parametrize("name", ["x[i] = v", "x[a:b] = v", "x += v"])
def test_an_owned_buffer_is_reused_on_every_device(name):
    x = xp.positive(_spread(HOST)).block_until_ready()

    def pointers():
        return [shard.data.unsafe_buffer_pointer() for shard in x._data.addressable_shards]

    before = pointers()
    UPDATES[name](x)
    x.block_until_ready()
    assert pointers() == before


def test_jit_with_mutation_of_a_sharded_argument():
    @xp.jit
    def f(x):
        x[0] = 1.0
        return xp.sum(x)

    x, host = _spread(HOST), HOST.copy()
    host[0] = 1.0
    _compare(f(x), host.sum())
    _compare(x, host)
    _placed(x, BOTH)


# --- mixing -------------------------------------------------------------------------------------------------------


def _one(number):
    return xp.ones((8, 4), device=CPUS[number])


@pytest.mark.parametrize(
    "run",
    [
        lambda a, b: a + b,
        lambda a, b: xp.atan2(a, b),
        lambda a, b: xp.where(a > 0, a, b),
        lambda a, b: xp.concat([a, b]),
        lambda a, b: a.T @ b,
        lambda a, b: a.__iadd__(b),
        lambda a, b: a.__setitem__(0, b[0]),
        lambda a, b: xp.jit(lambda x, y: x + y)(a, b),
    ],
)
def test_mixing_devices_names_both(run):
    a, b = _one(1), _one(2)
    with pytest.raises(DeviceMismatch) as caught:
        run(a, b)
    assert "cpu:1" in str(caught.value) and "cpu:2" in str(caught.value)
    assert "to_device" in str(caught.value)
    assert isinstance(caught.value, ValueError)
    np.testing.assert_array_equal(np.asarray(a), np.ones((8, 4)))


def test_mixing_a_sharding_with_a_device_or_another_mesh():
    x = _spread(HOST)
    with pytest.raises(DeviceMismatch, match="cpu:1"):
        x + _one(1)
    half = jax.make_mesh((4,), ("r",), axis_types=(AxisType.Auto,), devices=CPUS[:4])
    other = xp.asarray(HOST, device=NamedSharding(half, PartitionSpec("r")))
    with pytest.raises(DeviceMismatch, match="cpu:7"):
        x + other


def test_different_shardings_of_one_mesh_mix():
    _compare(_spread(HOST, ROWS) + _spread(HOST, COLUMNS), HOST * 2)
    _compare(_spread(HOST, ROWS) @ _spread(HOST, WHOLE).T, HOST @ HOST.T)


@pytest.mark.parametrize("place", [CPUS[3], BOTH], ids=["device", "sharding"])
def test_host_operands_and_uncommitted_arrays_follow(place):
    x = xp.asarray(HOST, device=place)
    free = xp.asarray(HOST)
    for result in (x + HOST, HOST + x, x * 2.0, x + free, free - x, xp.where(x > 0, HOST, x), np.add(HOST, x)):
        result.block_until_ready()
        assert result.sharding.device_set == x.sharding.device_set
    x[0] = HOST[1]
    x[1] = free[2]
    assert x.sharding.device_set == xp.asarray(HOST, device=place).sharding.device_set
    _compare(x[0], HOST[1])
    _compare(x[1], HOST[2])
