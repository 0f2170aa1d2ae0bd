"""Trees: arguments and results of a transformed function as raw arrays for JAX, and back to Arrays.

Inside of a transformed function an Array stays an Array, a NumPy array or a Python number becomes an Array, and a
plain ``jax.Array`` stays a plain one, so that functions of JAX libraries work on their own state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax

from .._array import Array, lift, wrap_shared
from ..core.dtypes import WIDE, default_float
from ..core.handle import used
from ..core.lazy import Lazy, resolve

__all__ = [
    "ARRAY",
    "NUMBER",
    "OTHER",
    "PLAIN",
    "Kinds",
    "Spec",
    "Tree",
    "flatten",
    "is_array",
    "needs_x64",
    "pack",
    "pack_result",
    "strengthen",
    "unpack",
    "unpack_result",
    "wide_tree",
    "wrap_tree",
]

# A tree of anything; JAX checks it at run time.
Tree: TypeAlias = Any
Kinds: TypeAlias = tuple[str, ...]

# How a leaf looks to the user's function. "number" is a Python number outside and a weakly typed Array inside, so
# that it never widens an array; "other" is not an array and passes unchanged.
ARRAY, NUMBER, PLAIN, OTHER = "array", "number", "plain", "other"
_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, slots=True)
class Spec:
    """Structure of a tree and the kind of each leaf."""

    treedef: jax.tree_util.PyTreeDef
    kinds: Kinds


def is_array(node: object) -> bool:
    """Whether a node of a tree is an Array (which is a leaf here, not a node)."""
    return type(node) is Array


def flatten(tree: Tree) -> tuple[list[object], jax.tree_util.PyTreeDef]:
    """Flatten a tree with Arrays as leaves."""
    return jax.tree_util.tree_flatten(tree, is_leaf=is_array)


def pack(tree: Tree, *, numbers: bool = True, operation: str = "", argument: str = "") -> tuple[Tree, Spec]:
    """Return the same tree of raw arrays, and how to make Arrays of it again.

    Parameters
    ----------
    numbers
        Whether NumPy arrays and Python numbers count as arrays; otherwise only Arrays are taken apart.
    """
    leaves, treedef = flatten(tree)
    raw: list[object] = []
    kinds: list[str] = []
    for leaf in leaves:
        value: object = leaf
        if type(leaf) is Array:
            kind, value = ARRAY, used(leaf)
        elif isinstance(leaf, jax.Array):
            kind = PLAIN
        elif type(leaf) is Lazy:  # a tensor of a Fusion backend
            kind, value = PLAIN, resolve(leaf)
        elif numbers and isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
            kind = NUMBER
        elif numbers and isinstance(leaf, np.ndarray | np.generic) and leaf.dtype != jax.dtypes.float0:
            kind, value = ARRAY, lift(leaf, None, operation, argument)
        else:
            kind = OTHER
        raw.append(value)
        kinds.append(kind)
    return treedef.unflatten(raw), Spec(treedef, tuple(kinds))


def unpack(tree: Tree, spec: Spec) -> Tree:
    """Return a raw tree of the structure in `spec` with its Arrays back in place; they are new handles."""
    leaves = spec.treedef.flatten_up_to(tree)
    return spec.treedef.unflatten([wrap_leaf(kind, leaf) for kind, leaf in zip(spec.kinds, leaves, strict=True)])


def wrap_leaf(kind: str, leaf: object) -> object:
    """Return an Array for an array that is one to the user's function."""
    if kind in (ARRAY, NUMBER) and isinstance(leaf, jax.Array):
        return wrap_shared(leaf)
    return leaf


def pack_result(tree: Tree) -> tuple[Tree, Spec]:
    """Return the raw tree of what a function returned, without weak types."""
    raw, spec = pack(tree)
    return jax.tree.map(strengthen, raw), spec


def unpack_result(tree: Tree, spec: Spec) -> Tree:
    """Return the result of a transform: Arrays where the function returned Arrays or numbers."""
    leaves = spec.treedef.flatten_up_to(tree)
    result = []
    for kind, leaf in zip(spec.kinds, leaves, strict=True):
        ours = kind in (ARRAY, NUMBER) and isinstance(leaf, jax.Array)
        result.append(wrap_shared(strengthen(leaf)) if ours else leaf)
    return spec.treedef.unflatten(result)


def wrap_tree(tree: Tree) -> Tree:
    """Wrap every raw array of a tree that JAX built (nested Jacobians)."""
    return jax.tree.map(lambda leaf: wrap_shared(strengthen(leaf)) if isinstance(leaf, jax.Array) else leaf, tree)


def strengthen(leaf: Any) -> Any:
    """Return an array without a weak type."""
    if isinstance(leaf, jax.Array) and leaf.aval.weak_type:
        return lax.convert_element_type(leaf, leaf.dtype)
    return leaf


def needs_x64(leaves: Sequence[object]) -> bool:
    """Whether a function of these leaves is to be traced with 64-bit types on."""
    arrays = numbers = False
    for leaf in leaves:
        if isinstance(leaf, Array | jax.Array | np.ndarray | np.generic | Lazy):
            if leaf.dtype in WIDE:
                return True
            arrays = True
        elif isinstance(leaf, float | complex):
            numbers = True
        elif isinstance(leaf, int) and not _INT32.min <= leaf <= _INT32.max:
            return True
    return numbers and not arrays and default_float(None) in WIDE


def wide_tree(*trees: Tree) -> bool:
    """`needs_x64` of all leaves of some trees."""
    return needs_x64([leaf for tree in trees for leaf in flatten(tree)[0]])
