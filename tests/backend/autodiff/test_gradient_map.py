"""The map of gradients: by tensor and by number."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from rtx_jax.backend import Autodiff, CpuBackend, GradientMap
from rtx_jax.errors import InvalidArgument, MissingGradient, ShapeMismatch

B = Autodiff(CpuBackend())
X, Y = B.require_grad(B.ones((2,))), B.require_grad(B.ones((2,)))


@pytest.fixture
def grads() -> GradientMap:
    return B.backward(B.add(B.mul(X, X), Y))


def test_by_tensor_and_by_number(grads: GradientMap) -> None:
    assert isinstance(grads, Mapping)
    np.testing.assert_array_equal(np.asarray(grads[X]), [2.0, 2.0])
    assert grads[X.id] is grads[X] and grads.get(X.id) is grads[X] and X.id in grads and X in grads
    assert len(grads) == 2 and set(grads) == {X.id, Y.id} and dict(grads.items())[Y.id] is grads[Y]
    assert X.id != Y.id


def test_what_is_not_there(grads: GradientMap) -> None:
    other = B.require_grad(B.ones((2,)))
    assert grads.get(other) is None and grads.get(B.ones((2,))) is None and other not in grads and None not in grads
    default = B.zeros((2,))
    assert grads.get(other, default) is default and grads.remove(other) is None
    for key in (other, other.id, B.ones((2,))):
        with pytest.raises(MissingGradient, match="require_grad"):
            grads[key]
    with pytest.raises(LookupError):
        grads[other]
    with pytest.raises(MissingGradient):
        grads.replace(other, default)


def test_gradients_have_no_graph(grads: GradientMap) -> None:
    assert not B.is_require_grad(grads[X]) and isinstance(grads[X], type(B.ones((2,))))


def test_remove(grads: GradientMap) -> None:
    gradient = grads[X]
    assert grads.remove(X) is gradient and X not in grads and len(grads) == 1
    assert grads.remove(X) is None


def test_replace(grads: GradientMap) -> None:
    before, new = grads[X], B.zeros((2,))
    assert grads.replace(X, new) is before and grads[X] is new and list(grads) == [X.id, Y.id]
    with pytest.raises(ShapeMismatch, match="replace"):
        grads.replace(X, B.zeros((3,)))


def test_accumulate(grads: GradientMap) -> None:
    grads.accumulate(X, B.ones((2,)))
    np.testing.assert_array_equal(np.asarray(grads[X]), [3.0, 3.0])
    other = B.require_grad(B.ones((3,)))
    grads.accumulate(other, B.ones((3,)))
    assert other in grads
    with pytest.raises(ShapeMismatch, match="accumulate"):
        grads.accumulate(X, B.zeros((3,)))
    with pytest.raises(InvalidArgument, match="key"):
        grads.accumulate(B.ones((2,)), B.ones((2,)))


def test_a_new_map_is_empty() -> None:
    new = GradientMap()
    assert len(new) == 0 and new.get(X) is None and not new
    new.accumulate(X, B.ones((2,)))
    new.accumulate(X, B.ones((2,)))
    np.testing.assert_array_equal(np.asarray(new[X]), [2.0, 2.0])
    assert "GradientMap" in repr(new)


def test_gradients_of_two_passes_add_up() -> None:
    total = GradientMap(B.inner)
    for scale in (1.0, 2.0):
        for number, gradient in B.backward(B.mul(X, B.full((2,), scale))).items():
            total.accumulate(number, gradient)
    np.testing.assert_array_equal(np.asarray(total[X]), [3.0, 3.0])


@pytest.mark.parametrize("bad", [None, 1.0, "ones", [1.0, 1.0]])
def test_gradients_that_are_no_tensors(grads: GradientMap, bad: object) -> None:
    before, other = grads[X], B.require_grad(B.ones((2,)))
    for change in (grads.replace, grads.accumulate):
        with pytest.raises(InvalidArgument, match="gradient"):
            change(X, bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="gradient"):
        grads.accumulate(other, bad)  # type: ignore[arg-type]
    assert grads[X] is before and other not in grads


def test_gradients_with_a_graph_belong_to_the_level_below(grads: GradientMap) -> None:
    for change in (grads.replace, grads.accumulate):
        with pytest.raises(InvalidArgument, match="detach"):
            change(X, B.mul(X, X))
    outer = Autodiff(B)
    x = outer.require_grad(X)
    slope = outer.backward(outer.mul(x, x))
    slope.accumulate(x, B.mul(X, X))  # 2 x + x^2, a tensor of the inner backend
    np.testing.assert_array_equal(np.asarray(B.backward(slope[x])[X]), [4.0, 4.0])
    with pytest.raises(InvalidArgument, match="detach"):
        slope.replace(x, x)
