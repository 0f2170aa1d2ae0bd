"""Derivatives of recorded graphs, each one compiled program, kept by the structure of the graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import jax
from jax import lax

from ...core.recorder import cached, run_steps
from .graph import Graph

__all__ = ["checkpointed", "gradient", "hessian_product", "jacobian", "plain", "pullback", "pushforward", "tap"]

Program: TypeAlias = "Callable[..., object]"
"""Takes the values of the leaves, and returns one array, or several as a tuple."""

Places: TypeAlias = "tuple[int, ...]"
"""Positions of leaves with respect to which the derivative is taken."""


def gradient(graph: Graph, places: Places) -> Program:
    """Return the gradients of the sum of the first root: its elements each have the weight 1."""

    def build() -> Program:
        forward = _forward(graph, places)

        def backward(*leaves: jax.Array) -> object:
            out, pull = jax.vjp(lambda *moving: forward(leaves, moving)[0], *[leaves[i] for i in places])
            return _packed(pull(lax.full_like(out, 1)))

        return jax.jit(backward)

    return cached(("gradient", graph.key, places), build)


def pullback(graph: Graph, places: Places) -> Program:
    """Return the vector-Jacobian product; the cotangents of the roots come after the leaves."""
    count = len(graph.leaves)

    def build() -> Program:
        forward = _forward(graph, places)

        def backward(*operands: jax.Array) -> object:
            leaves, cotangents = operands[:count], operands[count:]
            _, pull = jax.vjp(lambda *moving: forward(leaves, moving), *[leaves[i] for i in places])
            return _packed(pull(tuple(cotangents)))

        return jax.jit(backward)

    return cached(("pullback", graph.key, places, count), build)


def pushforward(graph: Graph, places: Places) -> Program:
    """Return the Jacobian-vector product; the tangents come after the leaves."""
    count = len(graph.leaves)

    def build() -> Program:
        forward = _forward(graph, places)

        def pushed(*operands: jax.Array) -> object:
            leaves, tangents = operands[:count], operands[count:]
            return _packed(
                jax.jvp(lambda *moving: forward(leaves, moving), [leaves[i] for i in places], list(tangents))[1]
            )

        return jax.jit(pushed)

    return cached(("pushforward", graph.key, places, count), build)


def hessian_product(graph: Graph, places: Places) -> Program:
    """Return the product of the Hessian of the first root, of one element, with tangents that come after the leaves."""
    count = len(graph.leaves)

    def build() -> Program:
        forward = _forward(graph, places)

        def product(*operands: jax.Array) -> object:
            leaves, tangents = operands[:count], operands[count:]

            def slope(*moving: jax.Array) -> tuple[jax.Array, ...]:
                out, pull = jax.vjp(lambda *inner: forward(leaves, inner)[0], *moving)
                gradients: tuple[jax.Array, ...] = pull(lax.full_like(out, 1))
                return gradients

            return _packed(jax.jvp(slope, [leaves[i] for i in places], list(tangents))[1])

        return jax.jit(product)

    return cached(("hessian product", graph.key, places, count), build)


def jacobian(graph: Graph, places: Places, forward_mode: bool) -> Program:
    """Return the Jacobians of the roots: by root and then by place, ``(*root.shape, *leaf.shape)``."""

    def build() -> Program:
        forward = _forward(graph, places)
        transform = jax.jacfwd if forward_mode else jax.jacrev

        def derivatives(*leaves: jax.Array) -> object:
            found = transform(lambda *moving: forward(leaves, moving), argnums=tuple(range(len(places))))(
                *[leaves[i] for i in places]
            )
            return _packed([block for row in found for block in row])

        return jax.jit(derivatives)

    return cached(("jacobian", graph.key, places, forward_mode), build)


def plain(graph: Graph) -> Program:
    """Return the graph as one call."""

    def build() -> Program:
        forward = _forward(graph, ())

        def again(*leaves: jax.Array) -> object:
            return _packed(forward(leaves, ()))

        return jax.jit(again)

    return cached(("plain", graph.key), build)


def checkpointed(graph: Graph) -> Program:
    """Return the graph as one call whose backward pass computes it again instead of keeping what is between."""

    def build() -> Program:
        forward = _forward(graph, ())

        def again(*leaves: jax.Array) -> object:
            return _packed(forward(leaves, ()))

        return jax.jit(jax.checkpoint(again))

    return cached(("checkpoint", graph.key), build)


def tap(x: jax.Array, zeros: jax.Array) -> jax.Array:
    """Return `x`: the gradient of `zeros` is that of `x`."""
    return lax.add(x, zeros)


def _forward(graph: Graph, places: Places) -> Callable[[Sequence[jax.Array], Sequence[jax.Array]], tuple]:  # type: ignore[type-arg]
    """Return the graph as a function of its leaves, and of others to put at some places."""
    steps, size, slots = graph.full_steps(), graph.size, graph.slots

    def run(leaves: Sequence[jax.Array], moving: Sequence[jax.Array]) -> tuple[object, ...]:
        values: list[object] = list(leaves)
        for place, value in zip(places, moving, strict=True):
            values[place] = value
        results = run_steps(steps, size, values)
        return tuple([results[slot] if slot >= 0 else values[-1 - slot] for slot in slots])

    return run


def _packed(results: Sequence[object]) -> object:
    return results[0] if len(results) == 1 else tuple(results)
