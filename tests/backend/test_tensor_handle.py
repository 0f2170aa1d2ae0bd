"""`TensorHandle`: Arrays as tensors of a backend, which can be given up."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import rtx_jax as xp
from rtx_jax.backend import Autodiff, CpuBackend, Fusion, Quantized, TensorHandle
from rtx_jax.errors import InvalidArgument, ShapeMismatch, UseAfterMove
from tests.backend.cases import CASES, Case

B = CpuBackend()


def handle(*values: float) -> TensorHandle:
    # The memory of a result; that of host data stays NumPy's.
    return TensorHandle(B.neg(B.neg(B.from_data(values, (len(values),)))))


def address(x: TensorHandle) -> int:
    """Where the elements are, without counting as somebody who has them."""
    pointer: int = x._data.unsafe_buffer_pointer()
    return pointer


def test_it_is_an_array() -> None:
    assert TensorHandle is xp.Array
    x = handle(1.0, -2.0)
    assert (x.shape, x.dtype, x.ndim) == ((2,), np.float32, 1) and x.is_alive
    for _ in range(2):  # what is not given up stays
        assert B.to_data(B.add(x, B.ones((2,)))).tolist() == [2.0, -1.0]
        assert B.to_data(B.clamp(x, -1.0, 1.0)).tolist() == [1.0, -1.0]
        assert B.to_data(B.softmax(x, 0)).sum() == pytest.approx(1)
    assert len({handle(1.0).id for _ in range(3)}) == 3
    assert B.to_data(TensorHandle(xp.asarray([3.0]))).tolist() == [3.0]


def test_given_up_memory_is_used() -> None:
    x, one = handle(1.0, 2.0), B.ones((2,))
    where = address(x)
    y = B.add(x.take(), one)
    assert y.unsafe_buffer_pointer() == where and B.to_data(y).tolist() == [2.0, 3.0]
    assert not x.is_alive and "given up" in repr(x) and not one.is_deleted()
    uses = (
        lambda: B.add(x, one),
        lambda: B.to_data(x),
        lambda: x.take(),
        lambda: x.clone(),
        lambda: x.jax,
        lambda: x.shape,
    )
    for use in uses:
        with pytest.raises(UseAfterMove, match="take"):
            use()
    with pytest.raises(UseAfterMove, match="^add"):
        B.add(one, x)


@pytest.mark.parametrize("place", [0, 1])
def test_either_operand_is_used(place: int) -> None:
    x, other = handle(4.0, 2.0), B.ones((2,))
    where = address(x)
    operands = (x.take(), other) if place == 0 else (other, x.take())
    assert B.sub(*operands).unsafe_buffer_pointer() == where
    assert not other.is_deleted()


def test_scalar_parameters_do_not_stand_in_the_way() -> None:
    for use in (lambda x: B.clamp(x, -1.0, 1.0), lambda x: B.gt_scalar(x, 0.5), lambda x: B.pow(x, 2.0)):
        x = handle(1.0, 2.0)
        where = address(x)
        assert use(x.take()).unsafe_buffer_pointer() == where
        assert not x.is_alive
    whole = TensorHandle(B.add(B.from_data([1, 2], (2,), dtype=np.int32), B.from_data([1, 1], (2,), dtype=np.int32)))
    assert B.to_data(B.gt_scalar(whole.take(), -3e9)).tolist() == [1, 1]  # a bound that int32 does not have
    assert not whole.is_alive


def test_what_a_result_cannot_use_is_let_go() -> None:
    x = handle(1.0, 2.0)
    assert B.to_data(B.sum(x.take())).tolist() == [3.0]
    assert not x.is_alive


def test_a_taken_handle_serves_once() -> None:
    x = handle(1.0)
    taken = x.take()
    assert taken.shape == (1,) and B.to_data(taken).tolist() == [1.0]  # looks, which are no operation
    B.exp(taken)
    with pytest.raises(UseAfterMove, match="exp"):
        B.exp(taken)
    twice = handle(1.0).take()
    with pytest.raises(UseAfterMove, match="add"):
        B.add(twice, twice)
    assert B.to_data(B.exp(handle(0.0).take().take())).tolist() == [1.0]


def test_a_clone_keeps_its_value() -> None:
    x = handle(1.0, 2.0)
    twin = x.clone()
    assert twin.id != x.id
    assert B.to_data(B.neg(x.take())).tolist() == [-1.0, -2.0]
    assert twin.is_alive and B.to_data(twin).tolist() == [1.0, 2.0]
    where = address(twin)
    assert B.neg(twin.take()).unsafe_buffer_pointer() == where  # alone by now


def test_what_somebody_else_holds_keeps_its_value() -> None:
    tensor = B.neg(B.from_data([1.0, 2.0], (2,)))
    assert B.to_data(B.neg(TensorHandle(tensor).take())).tolist() == [1.0, 2.0]
    assert B.to_data(tensor).tolist() == [-1.0, -2.0]
    view = np.asarray(handle(5.0, 6.0))
    x = handle(3.0, 4.0)
    view = np.asarray(x)
    assert B.to_data(B.neg(x.take())).tolist() == [-3.0, -4.0] and view.tolist() == [3.0, 4.0]
    x = handle(3.0, 4.0)
    moved = B.to_device(x, jax.devices()[0])  # the same memory
    assert B.to_data(B.neg(x.take())).tolist() == [-3.0, -4.0] and B.to_data(moved).tolist() == [3.0, 4.0]
    raw = (x := handle(7.0, 8.0)).jax
    again = jax.device_put(raw, raw.sharding)  # another array of the same memory
    del raw
    assert B.to_data(B.neg(x.take())).tolist() == [-7.0, -8.0] and np.asarray(again).tolist() == [7.0, 8.0]


def test_borrowed_operands_stay_alive() -> None:
    x, weight, bias = handle(1.0, 3.0), handle(1.0, 2.0).take(), handle(0.0, 0.0).take()
    where = address(x)
    y = B.layer_norm(x.take(), weight, bias)
    assert y.unsafe_buffer_pointer() == where and not x.is_alive
    assert weight.is_alive and bias.is_alive
    np.testing.assert_allclose(B.to_data(B.layer_norm(B.ones((2,)), weight, bias)), [0.0, 0.0])
    query, key, value = (TensorHandle(B.add(B.ones((1, 1, 2, 4)), B.ones((1, 1, 2, 4)))) for _ in range(3))
    mask = TensorHandle(B.from_data([True, False, True, True], (1, 1, 2, 2), dtype=np.bool_)).take()
    out = B.flash_attention(query.take(), key.take(), value.take(), mask, scale=0.5)
    np.testing.assert_allclose(B.to_data(out), 2.0)
    assert mask.is_alive and not (query.is_alive or key.is_alive or value.is_alive)
    q = TensorHandle(B.add(B.ones((1, 1, 2, 4)), B.ones((1, 1, 2, 4))))
    cos, sin = TensorHandle(B.ones((2, 2))).take(), TensorHandle(B.zeros((2, 2))).take()
    np.testing.assert_allclose(B.to_data(B.rope(q.take(), cos, sin)), 2.0)
    assert cos.is_alive and sin.is_alive and not q.is_alive


def test_an_operation_that_fails_uses_it_up_or_not_but_nothing_breaks() -> None:
    x, other = handle(1.0, 2.0), B.ones((3,))
    taken = x.take()
    with pytest.raises(ShapeMismatch):
        B.matmul(B.reshape(taken, (1, 2)), B.ones((3, 1)))
    assert not x.is_alive and B.to_data(B.add(other, other)).tolist() == [2.0, 2.0, 2.0]


def test_under_jit_nothing_is_donated() -> None:
    x = B.ones((2,))
    y = jax.jit(lambda x: B.add(TensorHandle(x).take(), x))(x)
    assert B.to_data(y).tolist() == [2.0, 2.0] and not x.is_deleted()

    @jax.jit
    def twice(x: jax.Array) -> jax.Array:
        taken = TensorHandle(x).take()
        return B.add(B.exp(taken), B.exp(taken))

    with pytest.raises(UseAfterMove, match="exp"):  # a program that eager execution refuses
        twice(x)


def test_around_another_backend() -> None:
    wrapped = Quantized(B)
    x = handle(1.0, 2.0)
    where = address(x)
    y = wrapped.neg(x.take())
    assert y.unsafe_buffer_pointer() == where and not x.is_alive


STACKS = {
    "fusion": Fusion(B),
    "quantized": Quantized(B),
    "autodiff": Autodiff(B),
    "autodiff<fusion>": Autodiff(Fusion(B)),
    "autodiff<quantized>": Autodiff(Quantized(B)),
    "fusion<quantized>": Fusion(Quantized(B)),
}


@pytest.mark.parametrize("name", STACKS)
def test_every_stack_takes_handles(name: str) -> None:
    stack = STACKS[name]
    x, weight = handle(1.0, 3.0), handle(1.0, 2.0)
    twin, raw = x.clone(), weight.clone()
    borrowed = weight.take()
    y = stack.layer_norm(x.take(), borrowed)
    z = stack.add(y, handle(1.0, 1.0).take())
    assert not x.is_alive and borrowed.is_alive
    for use in (lambda: stack.exp(x), lambda: stack.add(y, x), lambda: stack.layer_norm(y, weight)):
        with pytest.raises(UseAfterMove):
            use()
    np.testing.assert_allclose(stack.to_data(z), [0.0, 3.0], atol=1e-5)
    assert B.to_data(twin).tolist() == [1.0, 3.0] and B.to_data(raw).tolist() == [1.0, 2.0]
    with pytest.raises(UseAfterMove):
        stack.add(taken := twin.take(), taken)


def test_fusion_uses_the_memory() -> None:
    fused = Fusion(B)
    for _ in range(4):  # by pieces, then as one program
        x = handle(1.0, 2.0)
        where = address(x)
        y = fused.exp(fused.neg(fused.mul(x.take(), B.ones((2,)))))
        assert not x.is_alive
        np.testing.assert_allclose(fused.to_data(y), np.exp([-1.0, -2.0]), rtol=1e-6)
    assert y.jax.unsafe_buffer_pointer() == where  # type: ignore[attr-defined]


def test_fusion_of_handles_on_recorded_values() -> None:
    fused = Fusion(B)
    with xp.fusion():
        x = xp.asarray([1.0, 2.0], dtype=xp.float32) * 2
        taken = x.take()
        y = fused.neg(taken)
        assert not (x.is_alive or taken.is_alive)
        for use in (lambda: fused.neg(taken), lambda: fused.neg(x), lambda: taken + 1):
            with pytest.raises(UseAfterMove):
                use()
        z = xp.asarray([1.0, 2.0], dtype=xp.float32) * 2
        w = B.neg(z.take())
        with pytest.raises(UseAfterMove):
            fused.add(t := (xp.asarray([1.0, 2.0], dtype=xp.float32) * 2).take(), t)
    assert fused.to_data(y).tolist() == B.to_data(w).tolist() == [-2.0, -4.0] and not z.is_alive


def test_gradients_after_an_operand_was_given_up() -> None:
    tracked = Autodiff(B)
    x = handle(1.0, 2.0)
    leaf = tracked.require_grad(x)
    y = tracked.mul(leaf, leaf)
    assert B.to_data(B.neg(x.take())).tolist() == [-1.0, -2.0]  # the graph still has the memory
    assert B.to_data(tracked.backward(y)[leaf]).tolist() == [2.0, 4.0]
    x = handle(1.0, 2.0)
    leaf = tracked.require_grad(handle(3.0, 4.0))
    y = tracked.mul(leaf, x.take())
    assert not x.is_alive and B.to_data(tracked.backward(y)[leaf]).tolist() == [1.0, 2.0]


def test_no_tensor() -> None:
    with pytest.raises(InvalidArgument):
        TensorHandle([1.0])  # type: ignore[arg-type]


def _leaves(result: object) -> list[jax.Array]:
    return list(result) if isinstance(result, tuple) else [result]  # type: ignore[list-item]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_every_operation_takes_what_is_given_up(case: Case) -> None:
    """The values are those of the operation on plain tensors, and no operand is asked for twice."""

    def tensors() -> list[jax.Array | None]:
        made = []
        for operand in case.operands:
            dtype = np.float32 if operand is not None and np.asarray(operand).dtype == np.float64 else None
            made.append(None if operand is None else B.from_data(np.asarray(operand, dtype), np.shape(operand)))
        return made

    want = [np.asarray(leaf) for leaf in _leaves(case.call(B, *tensors()))]
    given = [None if x is None else TensorHandle(x).take() for x in tensors()]
    got = [np.asarray(leaf) for leaf in _leaves(case.call(B, *given))]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)
