"""Bad input: one test per kind, each a typed error that names the operation and what to do; nothing has changed."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import errors

X = np.arange(12.0).reshape(3, 4)
DEVICES = jax.devices()


def fresh() -> xp.Array:
    return xp.asarray(X) + 0.0


def assign(key: object, value: object):
    def run(x: xp.Array) -> None:
        x[key] = value

    return run


def add_in_place(value: object):
    def run(x: xp.Array) -> None:
        x += value

    return run


CASES = {
    "wrong kind, bits of floats": (lambda x: x & 1, errors.UnsupportedDType, "bitwise_and"),
    "wrong kind, subtract bools": (lambda x: (x > 1) - (x > 2), errors.UnsupportedDType, "subtract"),
    "wrong kind, floor of complex": (lambda x: xp.floor(x + 1j), errors.UnsupportedDType, "floor"),
    "wrong kind, text": (lambda x: xp.asarray(np.asarray(["a"])), errors.UnsupportedDType, "dtype"),
    "impossible broadcast": (lambda x: x + xp.ones(3), errors.BroadcastError, r"add.*\(3, 4\).*\(3,\)"),
    "impossible broadcast_to": (lambda x: xp.broadcast_to(x, (2, 4)), errors.BroadcastError, "broadcast_to"),
    "impossible reshape": (lambda x: xp.reshape(x, (5, 2)), errors.ShapeMismatch, "reshape"),
    "impossible matmul": (lambda x: x @ x, errors.ShapeMismatch, "matmul"),
    "impossible concat": (lambda x: xp.concat([x, xp.ones((2, 2))]), errors.ShapeMismatch, "concat"),
    "axis of sum": (lambda x: xp.sum(x, axis=2), errors.InvalidDimension, "sum.*axis.*2"),
    "axis of sort": (lambda x: xp.sort(x, axis=-3), errors.InvalidDimension, "sort.*axis"),
    "axis of stack": (lambda x: xp.stack([x], axis=5), errors.InvalidDimension, "stack.*axis"),
    "axis of permute_dims": (lambda x: xp.permute_dims(x, (0, 0)), errors.InvalidDimension, "permute_dims"),
    "repeated axis": (lambda x: xp.sum(x, axis=(0, 0)), errors.InvalidDimension, "sum"),
    "index, int": (lambda x: x[3], errors.IndexOutOfBounds, r"x\[key\].*3"),
    "index, negative int": (lambda x: x[0, -5], errors.IndexOutOfBounds, "-5"),
    "index, array": (lambda x: x[xp.asarray([0, 7])], errors.IndexOutOfBounds, "7"),
    "index, too many": (lambda x: x[0, 0, 0], IndexError, "key"),
    "index, float": (lambda x: x[1.5], IndexError, "key"),
    "index, mask of another shape": (lambda x: x[xp.ones(5, dtype=xp.bool)], IndexError, "key"),
    "write, index": (assign(9, 1.0), errors.IndexOutOfBounds, "9"),
    "write, index array": (assign(np.asarray([0, 9]), 1.0), errors.IndexOutOfBounds, "9"),
    "write, value does not fit": (assign(0, np.ones(3)), errors.BroadcastError, "value"),
    "write, too many values for a mask": (assign(X > 5, np.ones(3)), ValueError, "value"),
    "write, complex into real": (assign(0, 1j), errors.DTypeMismatch, "value"),
    "write, complex array into real": (assign(0, np.ones(4) + 1j), errors.DTypeMismatch, "value"),
    "in place, complex into real": (add_in_place(1j), errors.DTypeMismatch, "same kind|within its kind"),
    "in place, wider shape": (add_in_place(np.ones((2, 3, 4))), errors.ShapeMismatch, "broadcasts to"),
    "unknown device": (lambda x: xp.zeros(2, device="quantum"), ValueError, "quantum"),
    "unknown device of to_device": (lambda x: x.to_device("quantum:3"), ValueError, "quantum"),
    "device number": (lambda x: xp.zeros(2, device="cpu:99"), (ValueError, RuntimeError), "cpu:99|99"),
    "unavailable device": (lambda x: xp.zeros(2, device="tpu"), errors.BackendUnavailable, "tpu"),
    "device of another type": (lambda x: xp.zeros(2, device=3.5), (TypeError, ValueError), "device"),
    "bool of several": (lambda x: bool(x), errors.InvalidArgument, "bool.*one element"),
    "float of several": (lambda x: float(x), errors.InvalidArgument, "float"),
    "nested lists of two lengths": (lambda x: xp.asarray([[1, 2], [3]]), ValueError, "asarray"),
    "integer out of range": (lambda x: xp.astype(x, xp.int8) + 1000, OverflowError, "add.*1000"),
    "integer out of range, in place": (lambda x: xp.astype(x, xp.int8).__iadd__(1000), OverflowError, r"\+=.*1000"),
    "integer too large": (lambda x: xp.asarray(2**70), OverflowError, "asarray"),
    "negative shape": (lambda x: xp.zeros((-1,)), ValueError, "zeros"),
    "no arrays": (lambda x: xp.concat([]), ValueError, "concat"),
    "singular solve": (lambda x: xp.linalg.inv(x), (ValueError, np.linalg.LinAlgError), "inv"),
    "unknown precision": (lambda x: xp.set_matmul_precision("low"), errors.InvalidArgument, "highest"),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_with_a_typed_error(name):
    run, error, text = CASES[name]
    x = fresh()
    before = x._data.unsafe_buffer_pointer()
    with pytest.raises(error, match=text) as caught:
        run(x)
    assert isinstance(caught.value, errors.RtxError)
    assert x._data.unsafe_buffer_pointer() == before
    np.testing.assert_array_equal(np.asarray(x), X)


def test_unavailable_device_lists_those_there_are():
    with pytest.raises(errors.BackendUnavailable) as caught:
        xp.zeros(2, device="cuda")
    assert "cpu" in str(caught.value)


@pytest.mark.parametrize("value", [1.5, np.asarray([0.5]), np.float64(2.5)], ids=["float", "array", "numpy"])
def test_floats_into_integers(value):
    x = xp.arange(4)
    with pytest.raises(errors.DTypeMismatch, match="value"):
        x[1] = value
    with pytest.raises(errors.DTypeMismatch):
        x += value
    assert x.tolist() == [0, 1, 2, 3]


def test_mixed_devices_name_both():
    if len(DEVICES) < 2:
        pytest.fail("the test process has one device; conftest asks for eight virtual ones")
    a = xp.ones(2, device=DEVICES[0])
    b = xp.ones(2, device=DEVICES[1])
    with pytest.raises(errors.DeviceMismatch) as caught:
        a + b
    assert "cpu:0" in str(caught.value)
    assert "cpu:1" in str(caught.value)
    with pytest.raises(errors.DeviceMismatch):
        xp.concat([a, b])
    with pytest.raises(errors.DeviceMismatch):
        a += b
    with pytest.raises(errors.DeviceMismatch):
        a[0] = b[0]
    assert a.tolist() == b.tolist() == [1, 1]
    assert (a + np.ones(2)).device == DEVICES[0]


TRACED = {
    "mask": (lambda x: x[x > 1], errors.DataDependentShape, "where"),
    "nonzero": (lambda x: xp.nonzero(x), errors.DataDependentShape, "trac"),
    "unique_values": (lambda x: xp.unique_values(x), errors.DataDependentShape, "trac"),
    "repeat": (lambda x: xp.repeat(x[0], xp.astype(x[0], xp.int64)), errors.DataDependentShape, "trac"),
    "bool": (lambda x: x if x[0, 0] > 1 else -x, errors.ConcretizationError, "while tracing"),
    "float": (lambda x: float(x[0, 0]), errors.ConcretizationError, "while tracing"),
    "numpy": (lambda x: np.asarray(x), errors.ConcretizationError, "trac"),
    "index": (lambda x: range(5)[xp.astype(x[0, 0], xp.int64)], errors.ConcretizationError, "while tracing"),
}


@pytest.mark.parametrize("jit", [xp.jit, lambda f: jax.jit(lambda x: f(x))], ids=["rtx", "jax"])
@pytest.mark.parametrize("name", TRACED)
def test_values_are_not_known_while_tracing(name, jit):
    run, error, text = TRACED[name]
    with pytest.raises(error, match=text) as caught:
        jit(run)(fresh())
    assert isinstance(caught.value, TypeError)


def test_donated_array():
    x = fresh()
    xp.jit(lambda a: a * 2.0, donate_argnums=0)(x)
    with pytest.raises(errors.UseAfterMove, match="given away"):
        x + 1
    with pytest.raises(errors.UseAfterMove):
        x[0]
    with pytest.raises(errors.UseAfterMove):
        np.asarray(x)


def test_errors_pickle_with_their_fields():
    import pickle

    with pytest.raises(errors.IndexOutOfBounds) as caught:
        fresh()[3]
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))
    assert (again.index, again.size) == (3, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: xp.zeros(2**70),
        lambda: xp.ones((2**33, 2**33)),
        lambda: xp.eye(2**33),
        lambda: xp.linspace(0.0, 1.0, 2**70),
        lambda: xp.repeat(xp.ones(3), 2**70),
        lambda: xp.tile(xp.ones(3), (2**62,)),
        lambda: xp.broadcast_to(xp.ones(1), (2**33, 2**33)),
        lambda: xp.empty((2**70, 2)),
    ],
)
def test_sizes_beyond_64_bits(call):
    with pytest.raises((errors.InvalidArgument, errors.OutOfMemory)):
        call()
