"""vmap: map a function of Arrays over an axis of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np

from ..errors import InvalidArgument
from .scope import StepScope, entered
from .trees import Spec, Tree, pack, pack_result, unpack, unpack_result, wide_tree

__all__ = ["vmap"]

Axes = int | None | Sequence[object]


def vmap(
    fn: Callable[..., object],
    in_axes: Axes = 0,
    out_axes: object = 0,
    *,
    axis_name: Hashable | None = None,
    axis_size: int | None = None,
) -> Callable[..., object]:
    """Return a function that maps ``fn`` over an axis of its arguments, as one vectorised computation.

    Parameters
    ----------
    in_axes
        The axis of each positional argument that is mapped over, None for one that is not; a tree where an argument
        is a tree. Keyword arguments are mapped over axis 0.
    out_axes
        Where the mapped axis goes in the result.
    axis_name
        Name of the axis for collectives such as ``jax.lax.psum``.
    axis_size
        Length of the axis; found from the arguments when None.

    Raises
    ------
    InvalidArgument
        The axes do not fit the arguments, or the mapped sizes differ.
    TracedMutation
        `fn` writes to an Array that it did not receive.

    Notes
    -----
    Captured Arrays are the same for every row. A write to an argument stays inside: return the new value. Draws from
    the global generator differ between rows.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> xp.vmap(xp.sum)(xp.asarray([[1.0, 2.0], [3.0, 4.0]]))
    Array([3., 7.])
    """
    axes = tuple(in_axes) if isinstance(in_axes, list) else in_axes

    @functools.wraps(fn)
    def wrapped(*args: object, **kwargs: object) -> object:
        wide = wide_tree(args, kwargs)
        inside = False
        result: list[Spec] = []
        with entered(wide):
            raw, spec = pack(args, operation="vmap")
            named, named_spec = pack(kwargs, operation="vmap")

            def mapped(values: object, keywords: Tree, row: Any) -> object:
                nonlocal inside
                inside = True
                with StepScope("vmap", lambda: row).running():
                    inner = unpack(values, spec)
                    out = fn(*inner, **unpack(keywords, named_spec))
                    packed, out_spec = pack_result(out)
                    result.append(out_spec)
                    return packed

            try:
                size = axis_size if axis_size is not None else _size(raw, axes, named)
                rows = np.arange(size, dtype=np.uint32)
                out = jax.vmap(mapped, (axes, 0, 0), out_axes, axis_name=axis_name, axis_size=axis_size)(
                    raw, named, rows
                )
            except (ValueError, TypeError, IndexError) as error:
                if inside and not str(error).startswith("vmap"):
                    raise
                text = "an argument without such an axis" if isinstance(error, IndexError) else str(error)
                raise InvalidArgument(
                    "vmap",
                    "in_axes" if not inside else "out_axes",
                    got=text.split("\n")[0],
                    wanted="axes that the arguments have, of one size",
                    remedy="Give None for an argument that is the same in every row." if not inside else "",
                    arg="in_axes" if not inside else "out_axes",
                    reason="axes do not fit",
                ) from error
            return unpack_result(out, result[-1])

    return wrapped


def _size(raw: object, axes: object, named: object) -> int:
    """Return the length of the mapped axis by mapping a function that asks for it."""
    sizes: list[int] = []

    def note(leaf: Tree, axis: object) -> None:
        if isinstance(axis, int):
            sizes.append(int(np.shape(leaf)[axis]))

    def walk(axis: object, value: object) -> None:
        jax.tree.map(lambda leaf: note(leaf, axis), value)

    if axes is None or isinstance(axes, int):
        walk(axes, raw)
    else:
        jax.tree.map(walk, axes, raw, is_leaf=lambda node: node is None)
    walk(0, named)
    if not sizes:
        raise ValueError("no argument is mapped; pass axis_size")
    return sizes[0]
