"""Wrong use: a typed error each time, and a backend that goes on."""

from __future__ import annotations

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax import quant
from rtx_jax.backend import Autodiff, CpuBackend, Err, Fusion, NumpyBackend, Ok, Quantized, WebGpuBackend
from rtx_jax.errors import (
    AutogradError,
    BackendLimitation,
    BackwardError,
    ConcretizationError,
    InvalidArgument,
    MissingGradient,
    OutOfMemory,
    RtxError,
    ShapeMismatch,
    UnsupportedDimension,
    UnsupportedDType,
    UseAfterMove,
)
from tests.backend.toy import ToyBackend

B = Autodiff(CpuBackend())
NESTED = Autodiff(B)


def leaf(*shape: int) -> object:
    return B.require_grad(B.ones(shape))


def check_usable() -> None:
    x = leaf(2)
    np.testing.assert_array_equal(np.asarray(B.backward(B.mul(x, x))[x]), [2.0, 2.0])


@pytest.mark.parametrize("inner", [NumpyBackend(), ToyBackend(), WebGpuBackend()], ids=lambda b: b.name())
def test_backends_that_jax_does_not_trace(inner: object) -> None:
    with pytest.raises(BackendLimitation, match=r"jax\.grad") as caught:
        Autodiff(inner)
    assert caught.value.backend == inner.name() and caught.value.reason
    with pytest.raises(BackendLimitation):
        Autodiff(Quantized(NumpyBackend()))


def test_results_that_are_quantized_again() -> None:
    with pytest.raises(BackendLimitation, match="propagat"):
        Autodiff(Quantized(CpuBackend(), quant.QuantScheme("int8"), "propagate"))


def test_the_other_way_round() -> None:
    with pytest.raises(InvalidArgument, match=r"Autodiff\(Quantized\(B\)\)"):
        Quantized(B)
    with pytest.raises(InvalidArgument, match=r"Autodiff\(Fusion\(B\)\)"):
        Fusion(B)


@pytest.mark.parametrize("inner", ["cpu", None, CpuBackend])
def test_no_backend(inner: object) -> None:
    with pytest.raises(InvalidArgument):
        Autodiff(inner)


@pytest.mark.parametrize("max_rank", [-1, True, 2.0, "6"])
def test_no_rank(max_rank: object) -> None:
    with pytest.raises(InvalidArgument, match="max_rank"):
        Autodiff(CpuBackend(), max_rank=max_rank)


@pytest.mark.parametrize("dtype", [np.int32, np.bool_, np.uint8, np.int64])
def test_leaves_that_are_no_floats(dtype: type) -> None:
    with pytest.raises(UnsupportedDType, match="real floating") as caught:
        B.require_grad(B.from_data(np.ones(2, dtype), (2,)))
    assert caught.value.op == "require_grad"
    check_usable()


@pytest.mark.parametrize("x", [1.0, [1.0], None, np.ones(2, np.float32), "x"], ids=repr)
def test_leaves_that_are_no_tensors(x: object) -> None:
    with pytest.raises(InvalidArgument, match="TrackedTensor|tensors of the backend"):
        B.require_grad(x)


def test_quantized_leaves() -> None:
    q = Quantized(CpuBackend())
    with pytest.raises(UnsupportedDType, match="dequantize"):
        Autodiff(q).require_grad(q.quantize(q.ones((2, 2))))


def test_backward_of_a_tensor_without_a_graph() -> None:
    with pytest.raises(MissingGradient, match="require_grad"):
        B.backward(B.ones((1,)))
    match B.try_backward(B.ones((1,))):
        case Err(MissingGradient()):
            pass
        case other:
            pytest.fail(repr(other))
    check_usable()


@pytest.mark.parametrize("x", [1.0, None, "x"], ids=repr)
def test_backward_of_no_tensor(x: object) -> None:
    with pytest.raises(InvalidArgument):
        B.backward(x)


def test_backward_above_the_limit() -> None:
    x = leaf(1, 1, 1, 1, 1, 1, 2)
    y = B.mul(x, x)
    with pytest.raises(UnsupportedDimension, match="max_rank=None") as caught:
        B.backward(y)
    assert (caught.value.ndim, caught.value.max) == (7, 6) and isinstance(caught.value, AutogradError)
    match B.try_backward(y):
        case Err(error):
            assert isinstance(error, UnsupportedDimension)
        case other:
            pytest.fail(repr(other))
    match B.try_backward(B.sum(y)):  # the graph was not freed by the failures
        case Ok(grads):
            np.testing.assert_array_equal(np.asarray(grads[x]).ravel(), [2.0, 2.0])
        case other:
            pytest.fail(repr(other))


def test_the_limit_is_lifted() -> None:
    free = Autodiff(CpuBackend(), max_rank=None)
    x = free.require_grad(free.ones((1, 1, 1, 1, 1, 1, 2)))
    np.testing.assert_array_equal(np.asarray(free.backward(free.mul(x, x))[x]).ravel(), [2.0, 2.0])
    none = Autodiff(CpuBackend(), max_rank=0)
    y = none.require_grad(none.ones(()))
    assert float(none.backward(none.mul(y, y))[y]) == 2.0


def test_backward_twice() -> None:
    x = leaf(2)
    y = B.mul(x, x)
    B.backward(y)
    with pytest.raises(BackwardError):
        B.backward(y)
    assert isinstance(B.try_backward(y), Err)
    check_usable()


def test_retain_is_a_flag() -> None:
    with pytest.raises(InvalidArgument, match="retain"):
        B.backward(leaf(2), retain="yes")


def test_backward_after_a_buffer_was_donated() -> None:
    constant = jnp.asarray([2.0, 3.0], jnp.float32) + 0
    x = leaf(2)
    y = B.mul(B.mul(x, x), constant)
    jax.jit(lambda v: v + 1, donate_argnums=0)(constant)
    if not constant.is_deleted():
        constant.delete()
    with pytest.raises(UseAfterMove, match="backward") as caught:
        B.backward(y)
    assert "donate" in str(caught.value)
    assert isinstance(B.try_backward(y), Err)
    check_usable()


def test_an_operation_on_a_donated_leaf() -> None:
    value = jnp.ones(2) + 0
    x = B.require_grad(value)
    value.delete()
    with pytest.raises(UseAfterMove):
        B.mul(x, x)
    check_usable()


def test_operations_check_their_operands_as_ever() -> None:
    x = leaf(2, 3)
    with pytest.raises(ShapeMismatch):
        B.matmul(x, x)
    with pytest.raises(InvalidArgument):
        B.add(x, 1.0)
    with pytest.raises(InvalidArgument):
        B.add(x, np.ones((2, 3), np.float32))
    check_usable()


def test_tensors_of_other_backends() -> None:
    inner, outer = leaf(2), NESTED.require_grad(B.ones((2,)))
    with pytest.raises(InvalidArgument, match="around this one"):
        B.mul(outer, inner)
    with pytest.raises(InvalidArgument, match="around this one"):
        B.require_grad(outer)
    with pytest.raises(InvalidArgument, match="around this one"):
        B.backward(outer)
    with pytest.raises(InvalidArgument, match="inside this one"):
        NESTED.backward(B.mul(inner, inner))
    with pytest.raises(InvalidArgument, match="Autodiff backend that it belongs to"):
        CpuBackend().add(inner, inner)
    for function in (xp.sin, xp.jit(lambda x: x)):
        with pytest.raises(UnsupportedDType, match="Autodiff backend that it belongs to"):
            function(inner)
    check_usable()


def test_what_would_drop_the_graph() -> None:
    x = leaf(2)
    with pytest.raises(InvalidArgument, match="detach"):
        np.asarray(x)
    with pytest.raises(TypeError):
        np.add(x, 1.0)
    with pytest.raises(InvalidArgument, match="detach"):
        pickle.dumps(x)
    with pytest.raises(InvalidArgument, match="detach"):
        copy.deepcopy(B.mul(x, x))


def test_attributes_and_operators_of_other_libraries() -> None:
    x = leaf(2)
    with pytest.raises(AttributeError, match=r"write B\.backward\(loss\)\[x\]"):
        x.grad
    with pytest.raises(AttributeError, match=r"write B\.sum\(x\)"):
        x.sum()
    assert not hasattr(x, "nothing") and not hasattr(x, "__jax_array__")
    for use in (lambda: x * x, lambda: 1.0 - x, lambda: np.ones(2) * x, lambda: -x, lambda: x > 1, lambda: x[0]):
        with pytest.raises(TypeError, match=r"B\.add\(x, y\)"):
            use()
    assert x == x and len({x, x}) == 1


def test_keys_of_gradients_are_not_truth_values() -> None:
    x = leaf(2)
    grads = B.backward(B.mul(x, x))
    assert True not in grads and grads.get(False) is None


def test_another_device() -> None:
    if len(jax.devices("cpu")) < 2:
        pytest.skip("needs two devices: XLA_FLAGS=--xla_force_host_platform_device_count=2")
    x = leaf(2)
    with pytest.raises(BackendLimitation, match="one device"):
        B.to_device(x, "cpu:1")


def test_a_function_whose_result_is_no_number() -> None:
    x = B.ones((2,))
    with pytest.raises(ShapeMismatch, match="one element"):
        B.grad(lambda x: B.mul(x, x))(x)
    with pytest.raises(InvalidArgument, match="tensors"):
        B.grad(lambda x: 1.0)(x)
    with pytest.raises(UnsupportedDType):
        B.grad(lambda x: B.cast(B.sum(x), np.int32))(x)
    with pytest.raises(InvalidArgument, match="pair"):
        B.grad(lambda x: B.sum(x), has_aux=True)(x)
    check_usable()


@pytest.mark.parametrize("name", ["grad", "value_and_grad", "jacobian", "checkpoint"])
def test_what_is_no_function(name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"{name}: argument fn: got an object of type TrackedTensor.*backward"):
        getattr(B, name)(leaf(1))
    for run in (B.jvp, B.hvp):
        with pytest.raises(InvalidArgument, match="wanted a function"):
            run(3, (leaf(1),), (B.ones((1,)),))


def test_arguments_that_have_no_derivative() -> None:
    f = lambda x, *rest: B.sum(x)  # noqa: E731
    for bad in (B.from_data([1, 2], (2,)),):
        with pytest.raises(UnsupportedDType):
            B.grad(f)(bad)
    for bad in (1.0, "x", np.ones(2)):
        with pytest.raises(InvalidArgument):
            B.grad(f)(bad)
    for argnums in (1, -2, True, (0, 1), "0"):
        with pytest.raises(InvalidArgument, match="argnums"):
            B.grad(f, argnums)(B.ones((2,)))
    check_usable()


def test_tangents_and_cotangents_that_do_not_fit() -> None:
    x = B.ones((2,))
    with pytest.raises(ShapeMismatch, match="tangents"):
        B.jvp(B.exp, (x,), (B.ones((3,)),))
    with pytest.raises(InvalidArgument, match="tangents"):
        B.jvp(B.exp, (x,), ())
    with pytest.raises(InvalidArgument, match="primals"):
        B.hvp(B.sum, x, (x,))
    _, pull = B.vjp(B.exp, x)
    with pytest.raises(ShapeMismatch, match="cotangents"):
        pull(B.ones((1,)))
    with pytest.raises(InvalidArgument, match="cotangents"):
        pull((x, x))
    with pytest.raises(InvalidArgument, match="mode"):
        B.jacobian(B.exp, mode="backward")
    check_usable()


def test_a_function_that_raises_leaves_nothing_behind() -> None:
    def broken(x: object) -> object:
        B.mul(x, x)
        raise RuntimeError("half-way")

    for run in (B.grad(broken), B.jacobian(broken), B.checkpoint(broken)):
        with pytest.raises(RuntimeError, match="half-way"):
            run(B.ones((2,)))
    check_usable()


def test_every_error_is_ours() -> None:
    with pytest.raises(RtxError):
        B.register_hook(3)
    with B.register_hook(lambda grads: {}), pytest.raises(InvalidArgument, match="GradientMap"):
        B.backward(leaf(2))
    check_usable()


def test_a_tensor_that_a_trace_has_left_behind() -> None:
    kept: list[object] = []

    @jax.jit
    def leak(value: jax.Array) -> jax.Array:
        kept.append(B.mul(B.require_grad(value), value))
        return value

    leak(jnp.ones(2))
    for use in (lambda: B.exp(kept[0]), lambda: B.backward(kept[0])):
        with pytest.raises(ConcretizationError, match="left behind"):
            use()
    check_usable()


def test_tracked_tensors_of_the_caller_in_another_thread() -> None:
    outside = B.mul(leaf(2), B.ones((2,)))

    def f(x: object) -> object:
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(B.mul(x, outside)))
        thread.start()
        thread.join()
        return B.sum(found[0])

    with pytest.raises(BackwardError, match="another thread"):
        B.grad(f)(B.ones((2,)))
    check_usable()


def test_an_operation_that_runs_out_of_memory() -> None:
    x = B.require_grad(B.ones((1,)))
    with pytest.raises(OutOfMemory):
        B.index_add(x, [0], 1 << 50)
    check_usable()
