"""From the nodes that tensors lead to, to a program."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from rtx_jax.backend.autodiff.graph import linearize
from rtx_jax.core.recorder import Node, Ref, run_steps

add = jax.jit(lambda a, b: a + b)
double = jax.jit(lambda a: a * 2)
halves = jax.jit(lambda a: (a[:2], a[2:]))


def test_linearize_takes_what_the_roots_need_in_order() -> None:
    x = jnp.asarray([1.0, 2.0])
    base = Node(double, False, (x,))
    Node(double, False, (Ref(base),))  # nobody needs it
    top = Node(add, False, (Ref(base), x))
    parts = Node(halves, False, (jnp.arange(4.0),), 2)
    graph = linearize([Ref(top), Ref(parts, 1)], "backward")
    assert [step.fn for step in graph.full_steps()] == [double, add, halves]
    values = run_steps(graph.full_steps(), graph.size, graph.leaves)
    assert [np.asarray(values[slot]).tolist() for slot in graph.slots] == [[3, 6], [2, 3]]
    assert len(graph.leaves) == 2
