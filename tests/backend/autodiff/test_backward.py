"""What a backward pass gives: of leaves that are used again, of parts of graphs, of values that change in between."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import Autodiff, CpuBackend, Fusion, TrackedTensor, backend_of
from rtx_jax.errors import BackwardError

B = Autodiff(CpuBackend())
INNER = B.inner


def tensor(*values: float) -> jax.Array:
    return B.from_data(np.asarray(values, np.float32), (len(values),))


def leaf(*values: float) -> TrackedTensor:
    return B.require_grad(tensor(*values))


def equal(got: object, *want: float) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want, np.float32), rtol=1e-6)


def test_names_and_identity() -> None:
    assert B.name() == "autodiff<cpu>" and B.inner is CpuBackend()
    assert backend_of("autodiff<cpu>") == B and hash(backend_of("autodiff<cpu>")) == hash(B)
    assert B != Autodiff(CpuBackend(), max_rank=None) and B != CpuBackend()
    assert backend_of("autodiff<autodiff<cpu>>").name() == "autodiff<autodiff<cpu>>"


def test_values_are_there_at_once() -> None:
    x = leaf(1.0, 2.0)
    y = B.mul(x, x)
    assert isinstance(y, TrackedTensor) and y.shape == (2,) and y.dtype == np.float32 and y.ndim == 1
    np.testing.assert_array_equal(B.to_data(y), [1.0, 4.0])
    assert B.device(y) == B.default_device() and B.to_device(y, "cpu:0") is y


def test_tensors_without_a_graph_are_those_of_the_inner_backend() -> None:
    x = tensor(1.0)
    assert isinstance(B.add(x, x), jax.Array) and isinstance(B.zeros((2,)), jax.Array)
    assert isinstance(B.detach(leaf(1.0)), jax.Array) and B.detach(x) is x


def test_integers_of_tracked_tensors_have_no_graph() -> None:
    assert isinstance(B.cast(leaf(1.0), np.int32), jax.Array)


def test_the_own_gradient_of_a_leaf_is_one() -> None:
    x = leaf(3.0, 4.0)
    equal(B.backward(x)[x], 1.0, 1.0)


def test_a_leaf_is_marked_once() -> None:
    x = leaf(1.0)
    assert B.require_grad(x) is x and B.is_require_grad(x) and not B.is_require_grad(tensor(1.0))
    assert x.is_leaf and not B.mul(x, x).is_leaf and not B.is_require_grad(B.mul(x, x))


def test_two_leaves_of_one_value_are_two() -> None:
    value = tensor(2.0)
    x, y = B.require_grad(value), B.require_grad(value)
    grads = B.backward(B.mul(x, B.mul(y, y)))
    equal(grads[x], 4.0)
    equal(grads[y], 8.0)


def test_a_tensor_used_twice() -> None:
    x = leaf(3.0)
    equal(B.backward(B.mul(x, x))[x], 6.0)


def test_a_diamond() -> None:
    x = leaf(2.0)
    y = B.mul(x, x)
    equal(B.backward(B.mul(B.add(y, x), B.sub(y, x)))[x], 4 * 2.0**3 - 2 * 2.0)


def test_a_diamond_of_many_floors_is_walked_once() -> None:
    x = leaf(1.0)
    y = x
    for _ in range(200):
        y = B.add(y, y)
        y = B.mul(y, tensor(0.5))
    equal(B.backward(y)[x], 1.0)


def test_the_gradient_is_that_of_the_sum() -> None:
    x = leaf(1.0, 2.0)
    equal(B.backward(B.mul(x, x))[x], 2.0, 4.0)


def test_parts_that_do_not_lead_to_the_tensor_have_no_gradient() -> None:
    x, y = leaf(1.0), leaf(1.0)
    B.mul(x, y)
    grads = B.backward(B.neg(x))
    assert x in grads and y not in grads and grads.get(y) is None


def test_constants_have_no_gradient() -> None:
    x, c = leaf(3.0), tensor(2.0)
    grads = B.backward(B.mul(x, c))
    assert len(grads) == 1 and c not in grads
    equal(grads[x], 2.0)


def test_the_graph_is_freed() -> None:
    x = leaf(3.0)
    y = B.mul(x, x)
    B.backward(y)
    with pytest.raises(BackwardError, match="retain=True"):
        B.backward(y)
    equal(B.backward(B.mul(x, x))[x], 6.0)  # the leaf is as good as before


def test_a_part_shared_with_an_earlier_pass_is_freed_too() -> None:
    x = leaf(3.0)
    shared = B.mul(x, x)
    first, second = B.neg(shared), B.exp(shared)
    B.backward(first)
    with pytest.raises(BackwardError):
        B.backward(second)


def test_several_passes_over_a_graph_that_is_kept() -> None:
    x = leaf(3.0)
    shared = B.mul(x, x)
    first, second = B.neg(shared), B.mul(shared, shared)
    equal(B.backward(first, retain=True)[x], -6.0)
    equal(B.backward(first, retain=True)[x], -6.0)
    equal(B.backward(second)[x], 4 * 27.0)
    with pytest.raises(BackwardError):
        B.backward(first)


def test_a_failing_pass_frees_nothing() -> None:
    x = leaf(3.0)
    y = B.mul(x, x)
    with B.register_hook(lambda grads: 1 / 0), pytest.raises(ZeroDivisionError):
        B.backward(y, retain=True)
    equal(B.backward(y)[x], 6.0)


def test_results_of_operations_can_be_marked() -> None:
    x = leaf(-0.0, 2.0)
    y = B.require_grad(B.mul(x, x))
    assert B.require_grad(y) is y and B.is_require_grad(y)
    grads = B.backward(B.mul(y, y))
    equal(grads[y], 0.0, 8.0)
    equal(grads[x], 0.0, 32.0)


def test_a_marked_result_keeps_negative_zeros() -> None:
    x = leaf(-0.0)
    y = B.require_grad(B.mul(x, tensor(1.0)))
    grads = B.backward(B.div(tensor(1.0), y))  # 1 / -0.0 is -inf, and so is what the pass computes again
    assert np.isneginf(np.asarray(grads[y]))


def test_indices_are_constants() -> None:
    x = leaf(1.0, 2.0, 3.0)
    indices = B.from_data(np.int32([2, 0, 2]), (3,))
    grads = B.backward(B.index_select(x, indices))
    equal(grads[x], 1.0, 0.0, 2.0)
    table = B.require_grad(B.ones((3, 2)))
    rows = np.array([[0, 1], [1, 1]])
    np.testing.assert_array_equal(B.backward(B.embedding(rows, table))[table], [[1, 1], [3, 3], [0, 0]])


def test_what_becomes_of_indices_of_the_host_does_not_matter() -> None:
    x, indices = leaf(1.0, 2.0), np.array([1, 1])
    y = B.index_select(x, indices)
    indices[:] = 0
    equal(B.backward(y)[x], 0.0, 2.0)


def test_branches_on_values() -> None:
    def f(x: TrackedTensor) -> object:
        y = B.mul(x, x)
        return B.neg(y) if B.to_data(y)[0] > 4.0 else B.exp(x)

    x = leaf(3.0)
    equal(B.backward(f(x))[x], -6.0)
    x = leaf(0.0)
    equal(B.backward(f(x))[x], 1.0)


def test_tensors_of_one_element_are_numbers() -> None:
    for stack in (B, Autodiff(Fusion(CpuBackend()))):
        for shape in ((), (1,), (1, 1)):
            x = stack.require_grad(stack.from_data([1.5], shape))
            assert float(x) == x.item() == 1.5 and int(x) == 1 and bool(x) and float(stack.mul(x, x)) == 2.25


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_loops_of_any_length(steps: int) -> None:
    x = leaf(1.5)
    y = x
    for _ in range(steps):
        y = B.mul(y, x)
    equal(B.backward(y)[x], (steps + 1) * 1.5**steps)


def test_a_write_between_forward_and_backward_changes_nothing() -> None:
    weights = xp.asarray(np.float32([2.0, 3.0]))
    x = leaf(1.0, 1.0)
    y = B.mul(B.mul(x, x), weights)  # reads the Array
    weights[0] = 100.0
    weights += 1
    equal(B.backward(y)[x], 4.0, 6.0)
    equal(weights, 101.0, 4.0)


def test_a_write_to_the_array_of_a_leaf_changes_nothing() -> None:
    array = xp.asarray(np.float32([2.0]))
    x = B.require_grad(array)
    y = B.mul(x, x)
    array[...] = 7.0
    equal(B.backward(y)[x], 4.0)
    assert float(array[0]) == 7.0


def test_an_array_that_was_given_up_is_used_up() -> None:
    array = xp.asarray(np.float32([2.0]))
    x = leaf(3.0)
    y = B.mul(x, array.take())
    assert not array.is_alive
    equal(B.backward(y)[x], 2.0)
    other = xp.asarray(np.float32([5.0]))
    z = B.require_grad(other.take())
    assert not other.is_alive
    equal(B.backward(B.mul(z, z))[z], 10.0)


def test_narrow_and_wide_dtypes() -> None:
    for dtype in (np.float16, np.float64):
        x = B.require_grad(B.from_data(np.asarray([3.0], dtype), (1,)))
        grad = B.backward(B.mul(x, x))[x]
        assert grad.dtype == dtype
        equal(grad, 6.0)


def test_64_bit_numbers_in_the_middle_keep_their_digits() -> None:
    x = leaf(1.0)
    wide = B.cast(x, np.float64)
    tiny = B.from_data(np.asarray([1e-12]), (1,))
    y = B.mul(B.sub(B.add(wide, tiny), wide), B.from_data(np.asarray([1e12]), (1,)))
    grads = B.backward(B.mul(y, B.cast(x, np.float64)))
    np.testing.assert_allclose(np.asarray(grads[x]), 1.0, rtol=1e-3)


def test_under_a_trace() -> None:
    @jax.jit
    def slope(value: jax.Array) -> jax.Array:
        x = B.require_grad(value)
        return B.backward(B.mul(x, B.exp(x)))[x]

    at = jnp.asarray([0.5], jnp.float32)
    equal(slope(at), 1.5 * np.exp(0.5))
    equal(jax.vmap(slope)(at[None])[0], 1.5 * np.exp(0.5))


def test_on_threads() -> None:
    x = leaf(2.0)
    found: dict[int, float] = {}

    def work(n: int) -> None:
        y = x
        for _ in range(n):
            y = B.mul(y, x)
        found[n] = float(np.asarray(B.backward(y)[x])[0])

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: (n + 1) * 2.0**n for n in (1, 2, 3, 4)}


def test_random_draws_are_constants() -> None:
    B.seed(3)
    x = leaf(1.0, 1.0)
    noise = B.rand((2,))
    np.testing.assert_array_equal(np.asarray(B.backward(B.mul(x, noise))[x]), np.asarray(noise))
