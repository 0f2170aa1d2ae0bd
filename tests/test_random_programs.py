"""Random programs on Arrays against the same on NumPy: creations, reads, writes, copies, exports, jit, deletions.

NumPy's views are copied, as no Array is a view of another. What was exported must keep its values for good.
"""

from __future__ import annotations

import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import rtx_jax as xp
from rtx_jax.core import index_table
from rtx_jax.errors import UseAfterMove

SHAPES = ((4,), (2, 3))
DTYPES = ("float32", "float64", "int32")
SMALL = st.integers(-9, 9)

# Keys for both shapes.
KEYS = (
    0,
    -1,
    slice(None),
    slice(1, None),
    slice(None, None, -1),
    Ellipsis,
    (Ellipsis, 0),
    (None, 1),
    [1, 0, 1],
    [True, False],
    np.array([[0], [-1]]),
)


def key_for(key: object, shape: tuple[int, ...]) -> object:
    """Fit the mask among the keys to the first axis."""
    if isinstance(key, list) and key[0] is True:
        return np.array([True, False, False, True][: shape[0]])
    return key


@xp.jit
def double_first(x: xp.Array) -> xp.Array:
    x[0] = x[0] * 2
    return x + 1


@xp.jit
def swap_ends(x: xp.Array, y: xp.Array) -> None:
    first = x[0]
    x[0] = y[-1]
    y[-1] = first


class Programs(RuleBasedStateMachine):
    """Each pair is an Array and the NumPy array that it must equal."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[xp.Array, np.ndarray]] = []
        self.exports: list[tuple[object, np.ndarray]] = []

    def pick(self, data: st.DataObject) -> tuple[xp.Array, np.ndarray]:
        return self.pairs[data.draw(st.integers(0, len(self.pairs) - 1), "pair")]

    def add(self, array: xp.Array, expected: np.ndarray) -> None:
        assert array.dtype == expected.dtype
        if expected.shape in SHAPES and len(self.pairs) < 8:
            self.pairs.append((array, expected))
        else:
            np.testing.assert_array_equal(np.asarray(array), expected)

    @initialize(shape=st.sampled_from(SHAPES), dtype=st.sampled_from(DTYPES))
    def start(self, shape: tuple[int, ...], dtype: str) -> None:
        self.add(xp.zeros(shape, dtype=dtype), np.zeros(shape, dtype))

    @rule(shape=st.sampled_from(SHAPES), dtype=st.sampled_from(DTYPES), how=st.integers(0, 5), value=SMALL)
    def create(self, shape: tuple[int, ...], dtype: str, how: int, value: int) -> None:
        host = np.full(shape, value, dtype)
        if how == 0:
            self.add(xp.full(shape, value, dtype=dtype), host)
        elif how == 1:
            self.add(xp.ones(shape, dtype=dtype), np.ones(shape, dtype))
        elif how == 2:
            self.add(xp.asarray(host), host.copy())
            host[...] = 99  # the caller's memory stays the caller's
        elif how == 3:
            with jax.enable_x64(True):
                foreign = jnp.asarray(host)
            self.add(xp.asarray(foreign), host)
            self.exports.append((foreign, host.copy()))
        elif how == 4:
            self.add(xp.from_dlpack(host), host.copy())
        else:
            self.add(xp.arange(shape[0], dtype=dtype), np.arange(shape[0], dtype=dtype))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def read(self, data: st.DataObject, key: object) -> None:
        array, expected = self.pick(data)
        key = key_for(key, expected.shape)
        self.add(array[key], np.array(expected[key]))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), key=st.sampled_from(KEYS), value=SMALL)
    def write_scalar(self, data: st.DataObject, key: object, value: int) -> None:
        array, expected = self.pick(data)
        key = key_for(key, expected.shape)
        array[key] = value
        expected[key] = value

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), key=st.sampled_from(KEYS), other_key=st.sampled_from(KEYS))
    def write_from(self, data: st.DataObject, key: object, other_key: object) -> None:
        """``x[a] = y[b]``, where y may be x itself."""
        (array, expected), (other, other_expected) = self.pick(data), self.pick(data)
        if np.dtype(expected.dtype).kind == "i" and other_expected.dtype.kind == "f":
            return
        key, other_key = key_for(key, expected.shape), key_for(other_key, other_expected.shape)
        value, target = np.array(other_expected[other_key]), expected[key].shape
        while value.ndim > len(target) and value.shape[0] == 1:
            value = value[0]
        try:
            np.broadcast_to(value, target)
        except ValueError:
            with pytest.raises(ValueError, match="value"):
                array[key] = other[other_key]
            return
        array[key] = other[other_key]
        expected[key] = value

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def write_whole(self, data: st.DataObject) -> None:
        """``x[...] = y``, where y may be x itself, or share its buffer."""
        (array, expected), (other, other_expected) = self.pick(data), self.pick(data)
        if expected.shape == other_expected.shape and expected.dtype == other_expected.dtype:
            array[...] = other
            expected[...] = other_expected

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), value=st.integers(-2, 2), how=st.integers(0, 3))
    def in_place(self, data: st.DataObject, value: int, how: int) -> None:
        array, expected = self.pick(data)
        before = array
        if how == 0:
            array += value
            expected += value
        elif how == 1:
            array *= value
            expected *= value
        elif how == 2:
            array -= array
            expected -= expected
        else:
            array[0] += value
            expected[0] += value
        assert array is before

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), how=st.integers(0, 9))
    def copy(self, data: st.DataObject, how: int) -> None:
        array, expected = self.pick(data)
        copies = (
            lambda x: xp.asarray(x, copy=True),
            lambda x: x.copy(),
            copy.copy,
            copy.deepcopy,
            lambda x: x[...],
            lambda x: xp.reshape(x, x.shape),
            lambda x: xp.astype(x, x.dtype),
            lambda x: x.to_device(jax.devices()[0]),
            lambda x: pickle.loads(pickle.dumps(x)),
            lambda x: x.clone(),
        )
        copied = copies[how](array)
        assert copied is not array
        self.add(copied, expected.copy())

    @precondition(lambda self: self.pairs and len(self.pairs) < 8)
    @rule(data=st.data())
    def same_handle(self, data: st.DataObject) -> None:
        """``asarray`` without change returns the handle, as NumPy does."""
        array, expected = self.pick(data)
        assert xp.asarray(array) is array
        self.pairs.append((array, expected))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data(), how=st.integers(0, 4))
    def give_up(self, data: st.DataObject, how: int) -> None:
        """Its memory may be used; clones, copies and exports keep their values."""
        array, expected = self.pick(data)
        self.pairs = [pair for pair in self.pairs if pair[0] is not array]
        one = expected.dtype.type(1)
        uses = (
            (lambda x: x + 1, expected + one),
            (lambda x: -x, -expected),
            (xp.square, np.square(expected)),
            (lambda x: x[::-1], expected[::-1].copy()),
            (xp.jit(lambda x: x - 1), expected - one),
        )
        use, wanted = uses[how]
        self.add(use(array.take()), wanted)
        assert not array.is_alive
        with pytest.raises(UseAfterMove):
            array.tolist()

    @precondition(lambda self: self.pairs and len(self.exports) < 12)
    @rule(data=st.data(), how=st.integers(0, 4))
    def export(self, data: st.DataObject, how: int) -> None:
        array, expected = self.pick(data)
        exports = (
            np.asarray,
            lambda x: x.jax,
            np.from_dlpack,
            lambda x: jax.tree.leaves(x)[0],
            lambda x: np.asarray(x.jax),
        )
        self.exports.append((exports[how](array), expected.copy()))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def call_jit(self, data: st.DataObject) -> None:
        array, expected = self.pick(data)
        result = double_first(array)
        expected[0] = expected[0] * 2
        self.add(result, expected + expected.dtype.type(1))

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def call_jit_of_two(self, data: st.DataObject) -> None:
        (array, expected), (other, other_expected) = self.pick(data), self.pick(data)
        if (
            expected is other_expected
            or expected.shape != other_expected.shape
            or expected.dtype != other_expected.dtype
        ):
            return
        swap_ends(array, other)
        expected[0], other_expected[-1] = np.array(other_expected[-1]), np.array(expected[0])

    @precondition(lambda self: self.pairs)
    @rule(data=st.data())
    def call_plain_jit(self, data: st.DataObject) -> None:
        """Writes to arguments stay inside of a function that JAX itself traces."""
        array, expected = self.pick(data)

        def function(x: xp.Array) -> xp.Array:
            x[0] = 5
            return x

        wanted = expected.copy()
        wanted[0] = 5
        with jax.enable_x64(True):
            result = jax.jit(function)(array)
        self.add(result, wanted)

    @precondition(lambda self: len(self.pairs) > 1)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        del self.pairs[data.draw(st.integers(0, len(self.pairs) - 1), "pair")]
        gc.collect(0)

    @precondition(lambda self: self.exports)
    @rule(data=st.data())
    def delete_export(self, data: st.DataObject) -> None:
        del self.exports[data.draw(st.integers(0, len(self.exports) - 1), "export")]

    @invariant()
    def all_equal(self) -> None:
        for array, expected in self.pairs:
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(np.asarray(array), expected)
        for export, expected in self.exports:
            np.testing.assert_array_equal(np.asarray(export), expected)


class UnwatchedPrograms(Programs):
    """Nothing looks at the Arrays between the steps, so that their buffers are donated."""

    @invariant()
    def all_equal(self) -> None:
        pass

    def teardown(self) -> None:
        Programs.all_equal(self)


@pytest.fixture(params=["served", "compiled"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "compiled":
        monkeypatch.setattr(index_table.limits, "reads", 0)
        monkeypatch.setattr(index_table.limits, "writes", 0)


@pytest.mark.parametrize("machine", [Programs, UnwatchedPrograms])
def test_random_programs(machine: type[RuleBasedStateMachine]) -> None:
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=25, deadline=None))
