"""Hooks on backward passes."""

from __future__ import annotations

import pickle

import numpy as np

from rtx_jax.backend import Autodiff, CpuBackend, GradientMap


def slope(B: Autodiff) -> float:
    x = B.require_grad(B.from_data([3.0], ()))
    return float(np.asarray(B.backward(B.mul(x, x))[x]))


def scaled(factor: float) -> object:
    def hook(grads: GradientMap) -> None:
        for number, gradient in list(grads.items()):
            grads.replace(number, gradient * factor)

    return hook


def test_a_hook_changes_gradients_in_place() -> None:
    B = Autodiff(CpuBackend())
    B.register_hook(scaled(0.5))
    assert slope(B) == 3.0


def test_hooks_run_in_order_and_may_return_a_map() -> None:
    B = Autodiff(CpuBackend())

    def plus_one(grads: GradientMap) -> GradientMap:
        made = GradientMap(B.inner)
        for number, gradient in grads.items():
            made.accumulate(number, gradient + 1)
        return made

    B.register_hook(scaled(2.0))
    B.register_hook(plus_one)
    assert slope(B) == 13.0


def test_hooks_are_removed() -> None:
    B = Autodiff(CpuBackend())
    hook = B.register_hook(scaled(0.0))
    hook.remove()
    hook.remove()
    with B.register_hook(scaled(10.0)):
        assert slope(B) == 60.0
    assert slope(B) == 6.0


def test_hooks_belong_to_one_value() -> None:
    B = Autodiff(CpuBackend())
    B.register_hook(scaled(0.0))
    assert slope(Autodiff(CpuBackend())) == 6.0 and Autodiff(CpuBackend()) == B
    assert slope(pickle.loads(pickle.dumps(B))) == 6.0


def test_gradients_are_summed_over_ranks() -> None:
    # What data parallel training does with a hook: each rank adds up the gradients of all.
    shared: dict[str, list[GradientMap]] = {"ranks": []}
    B = Autodiff(CpuBackend())
    w = B.require_grad(B.from_data([2.0], (1,)))
    losses = [B.mul(w, B.full((1,), scale)) for scale in (1.0, 3.0)]

    def gather(grads: GradientMap) -> None:
        shared["ranks"].append(grads)

    with B.register_hook(gather):
        for loss in losses:
            B.backward(loss)

    def all_reduce(grads: GradientMap) -> None:
        for number in list(grads):
            grads.replace(number, sum(rank[number] for rank in shared["ranks"]))

    with B.register_hook(all_reduce):
        assert float(np.asarray(B.backward(B.mul(w, w))[w])[0]) == 4.0
