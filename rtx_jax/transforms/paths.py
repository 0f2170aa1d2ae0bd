"""Paths: how a function reaches the Arrays that it reads without receiving them, so that a rebound name is seen.

A compiled function reads its captured Arrays anew at each call. `snapshot` looks for a way to each of them from the
function itself (closure, globals that it names, defaults, attributes, items), and `follow` walks that way again.
"""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator

import jax
import numpy as np

from ..core.handle import Handle

__all__ = ["Path", "assign", "describe", "follow", "reachable", "snapshot"]

Step = tuple[str, object]
Path = tuple[Step, ...]

_MAX_DEPTH = 8
_MAX_NODES = 20_000
# What these modules define holds no Arrays of the user, and can be large.
_FOREIGN = frozenset(("jax", "jaxlib", "numpy", "threading", "logging", "concurrent", "weakref"))
_LEAVES = (str, bytes, int, float, complex, bool, type(None), np.ndarray, np.generic, jax.Array, np.dtype)
_MISSING = object()


def snapshot(root: object) -> dict[int, tuple[Handle, Path]]:
    """Return every handle that can be reached from `root` with the shortest path to it, keyed by ``id``."""
    found: dict[int, tuple[Handle, Path]] = {}
    for handle, path in _walk(root):
        found.setdefault(id(handle), (handle, path))
    return found


def reachable(root: object) -> Iterator[Handle]:
    """Yield the handles that the code of `root` names: closure, globals and attributes in its own code."""
    names = set().union(*(_names(function.__code__) for function in _functions(root)))
    for handle, path in _walk(root, names):
        del path
        yield handle


def follow(root: object, path: Path) -> object | None:
    """Return what is at the end of a path now, or None when it leads nowhere."""
    node = root
    try:
        for kind, key in path:
            node = _step(node, kind, key)
    except (AttributeError, KeyError, IndexError, TypeError, ValueError):
        return None
    return node


def assign(root: object, path: Path, handle: Handle) -> None:
    """Bind the last name of a path to `handle` again."""
    owner = follow(root, path[:-1])
    kind, key = path[-1]
    if kind == "attr":
        setattr(owner, str(key), handle)
    elif kind == "item":
        owner[key] = handle  # type: ignore[index]
    elif kind == "cell":
        owner.__closure__[key].cell_contents = handle  # type: ignore[attr-defined]
    elif kind == "global":
        owner.__globals__[key] = handle  # type: ignore[attr-defined]


def describe(path: Path) -> str:
    """Return the last names of a path as they look in code."""
    text = ""
    for kind, key in path:
        if kind == "attr":
            text = f"{text or '...'}.{key}"
        elif kind == "item":
            text = f"{text or '...'}[{key!r}]"
        elif kind == "global":
            text = str(key)
    return text or "a name of the enclosing function"


def _step(node: object, kind: str, key: object) -> object:
    if kind == "attr":
        return getattr(node, str(key))
    if kind == "item":
        return node[key]  # type: ignore[index]
    if kind == "cell":
        return node.__closure__[key].cell_contents  # type: ignore[attr-defined]
    if kind == "global":
        return node.__globals__[key]  # type: ignore[attr-defined]
    if kind == "default":
        return node.__defaults__[key]  # type: ignore[attr-defined]
    return node.__kwdefaults__[key]  # type: ignore[attr-defined]


def _walk(root: object, names: set[str] | None = None) -> Iterator[tuple[Handle, Path]]:
    """Visit breadth first everything that `root` reaches; attributes only in `names`, where given."""
    queue: deque[tuple[object, Path]] = deque([(root, ())])
    seen: set[int] = set()
    while queue and len(seen) < _MAX_NODES:
        node, path = queue.popleft()
        if id(node) in seen or isinstance(node, _LEAVES) or type(node).__module__.partition(".")[0] in _FOREIGN:
            continue
        seen.add(id(node))
        if isinstance(node, Handle):
            yield node, path
        elif len(path) < _MAX_DEPTH:
            for step, child in _children(node, names):
                queue.append((child, (*path, step)))


def _children(node: object, names: set[str] | None) -> Iterator[tuple[Step, object]]:
    if isinstance(node, types.FunctionType):
        yield from _children_of_function(node)
    elif isinstance(node, types.MethodType):
        yield ("attr", "__self__"), node.__self__
        yield ("attr", "__func__"), node.__func__
    elif isinstance(node, functools.partial):
        yield ("attr", "func"), node.func
        yield ("attr", "args"), node.args
        yield ("attr", "keywords"), node.keywords
    elif isinstance(node, dict):
        for key, value in list(node.items()):
            yield ("item", key), value
    elif isinstance(node, list | tuple):
        for i, value in enumerate(node):
            yield ("item", i), value
    elif isinstance(node, types.ModuleType | type):
        for name in names or ():
            value = vars(node).get(name, _MISSING)
            if isinstance(value, Handle | dict | list):
                yield ("attr", name), value
    else:
        for name, value in _attributes(node):
            if names is None or name in names:
                yield ("attr", name), value


def _children_of_function(node: types.FunctionType) -> Iterator[tuple[Step, object]]:
    for i, cell in enumerate(node.__closure__ or ()):
        try:
            yield ("cell", i), cell.cell_contents
        except ValueError:
            continue  # a name that is not bound yet
    named = _names(node.__code__)
    for name in named:
        value = node.__globals__.get(name, _MISSING)
        if isinstance(value, types.ModuleType | type):
            # Of a module only what the code can mean: `module.x` where `x` is an Array or holds some.
            for inner in named:
                inside = vars(value).get(inner, _MISSING)
                if isinstance(inside, Handle | dict | list):
                    yield ("global", name), _Named(value, inner)
        elif value is not _MISSING:
            yield ("global", name), value
    for i, value in enumerate(node.__defaults__ or ()):
        yield ("default", i), value
    for name, value in (node.__kwdefaults__ or {}).items():
        yield ("kwdefault", name), value


class _Named:
    """A module or class of which one attribute matters; a path goes through it as through the module."""

    def __init__(self, owner: object, name: str) -> None:
        self.__dict__[name] = vars(owner)[name]


def _attributes(node: object) -> Iterator[tuple[str, object]]:
    own: tuple[str, ...] | None = getattr(type(node), "paths_through", None)
    if own is not None:  # a transformed function, whose tables are not the user's
        yield from ((name, getattr(node, name)) for name in own)
        return
    try:
        yield from list(vars(node).items())
    except TypeError:
        pass  # no __dict__
    for cls in type(node).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            value = getattr(node, name, _MISSING)
            if value is not _MISSING:
                yield name, value


def _functions(root: object) -> Iterator[types.FunctionType]:
    if isinstance(root, types.MethodType):
        root = root.__func__
    while isinstance(root, functools.partial):
        root = root.func
    if isinstance(root, types.FunctionType):
        yield root


def _names(code: types.CodeType) -> set[str]:
    """Names that the code and the code inside of it load: globals and attributes alike."""
    names = set(code.co_names)
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            names |= _names(const)
    return names
