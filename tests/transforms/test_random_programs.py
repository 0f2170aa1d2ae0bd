"""Random programs of writes on arguments and captured Arrays: compiled, eager and NumPy's results are the same."""

from __future__ import annotations

from types import ModuleType

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import rtx_jax as xp

SIZE = 4
# Variables 0 and 1 are the arguments, 2 is captured, 3 is made inside.
variable = st.integers(0, 3)
number = st.sampled_from([0.0, 1.0, -2.0, 0.5])
statement = st.one_of(
    st.tuples(st.just("set"), variable, st.integers(-SIZE, SIZE - 1), number),
    st.tuples(st.just("add"), variable, variable),
    st.tuples(st.just("scale"), variable, number),
    st.tuples(st.just("fill"), variable, variable),
    st.tuples(st.just("slice"), variable, variable),
    st.tuples(st.just("mask"), variable, number),
    st.tuples(st.just("new"), variable, variable),
    st.tuples(st.just("same"), variable, variable),
)


def execute(ns: ModuleType, program: list[tuple[object, ...]], first: object, second: object, held: object) -> object:
    env = [first, second, held, ns.zeros(SIZE)]
    for kind, i, *rest in program:
        if kind == "set":
            env[i][rest[0]] = rest[1]
        elif kind == "add":
            env[i] += env[rest[0]]
        elif kind == "scale":
            env[i] *= rest[0]
        elif kind == "fill":
            env[i][...] = env[rest[0]]
        elif kind == "slice":
            env[i][1:3] = env[rest[0]][:2] + 0.0
        elif kind == "mask":
            env[i][env[i] > 0] = rest[0]
        elif kind == "new":
            env[i] = env[rest[0]] + 1.0
        else:
            env[i] = env[rest[0]]
    return tuple(env)


def identities(results: object, handles: list[object]) -> list[int]:
    """Which of the results and handles are one object: the index of the first that each one is."""
    objects = [*results, *handles]
    return [next(k for k, other in enumerate(objects) if other is thing) for thing in objects]


@given(
    program=st.lists(statement, min_size=1, max_size=6),
    alias=st.sampled_from(["none", "arguments", "captured"]),
    view=st.booleans(),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_same_as_numpy(program: list[tuple[object, ...]], alias: str, view: bool) -> None:
    def start(make: object) -> list[object]:
        a, b, c = (make(np.arange(SIZE) * 1.0 + k) for k in (0.0, 10.0, 20.0))
        return [a, a if alias == "arguments" else c if alias == "captured" else b, c]

    theirs = start(np.asarray)
    ours = start(xp.asarray)
    held = ours[2]
    compiled = xp.jit(lambda first, second: execute(xp, program, first, second, held))
    for _ in range(2):
        before = [np.array(x) for x in theirs]
        views = [np.asarray(x) for x in ours] if view else []
        want = execute(np, program, *theirs)
        got = compiled(ours[0], ours[1])
        for mine, right in zip([*got, *ours], [*want, *theirs], strict=True):
            np.testing.assert_array_equal(np.asarray(mine), right)
        assert identities(got, ours) == identities(want, theirs)
        for seen, kept in zip(views, before, strict=False):
            np.testing.assert_array_equal(seen, kept)
