"""jit: compile a function of Arrays, with its writes carried out on the caller's Arrays as eager execution would."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, ParamSpec, TypeVar, overload

import jax
import numpy as np

from .. import _config
from .._array import Array, lift
from .._compat import X64_UNSET, ArrayImpl, restore_x64, swap_x64, trace_context, x64
from ..checks.parameters import function as check_function
from ..core.dtypes import WIDE, default_complex, default_float, default_int
from ..core.handle import Given, Handle, data_of, is_local, tracing
from ..core.lazy import Lazy, resolve
from ..errors import InvalidArgument, ScalarOverflow, UnsupportedDType
from . import compiles, paths
from .program import Call, Program, bind, operands_of, run, trace
from .trees import ARRAY, NUMBER, PLAIN, flatten, is_array, needs_x64

__all__ = ["Compiled", "jit", "take_apart"]

P = ParamSpec("P")
R = TypeVar("R")

_MAX_SIGNATURES = 1024
_UNKNOWN = object()
_INT64 = np.iinfo(np.int64)
# One lock for all functions: two threads that trace functions that call each other must not wait in a circle.
_tracing_lock = threading.RLock()


class Compiled(Generic[P, R]):
    """A compiled function; made by `jit`.

    Notes
    -----
    It may be called from several threads; each signature is traced once.
    """

    paths_through = ("fn",)

    def __init__(
        self,
        fn: Callable[P, R],
        static_argnums: tuple[int, ...],
        static_argnames: frozenset[str],
        donate_argnums: tuple[int, ...],
        donate_argnames: frozenset[str],
    ) -> None:
        functools.update_wrapper(self, fn, updated=())
        self.fn = fn
        self.static_argnums, self.static_argnames = static_argnums, static_argnames
        self.donate_argnums, self.donate_argnames = donate_argnums, donate_argnames
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self._programs: dict[Hashable, list[Program]] = {}
        # Programs by the shapes alone, for calls with nothing but distinct Arrays.
        self._flat: dict[Hashable, Program] = {}
        self._signatures: list[compiles.Signature] = []
        self._state: dict[str, bool] = {}
        self._methods: dict[int, tuple[object, Compiled[..., R]]] = {}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not kwargs and (not tracing.active or tracing.settle()):
            result = self._call_flat(args)
            if result is not _UNKNOWN:
                return result  # type: ignore[return-value]
        program, call, found, wide = self._find(args, kwargs)
        previous = X64_UNSET
        try:
            if wide:
                previous = swap_x64(True)
            return run(program, self.name, call, found)  # type: ignore[return-value]
        finally:
            if wide:
                restore_x64(previous)

    def __get__(self, instance: object, owner: type | None = None) -> Compiled[..., R]:
        if instance is None:
            return self
        return self._bound_to(instance)

    def __repr__(self) -> str:
        return f"<rtx_jax.jit of {self.fn!r}>"

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Lowered:
        """Return the lowered form for these arguments, as ``jax.jit(f).lower`` does; nothing runs.

        Hidden operands follow those of the arguments, and the new values of written Arrays follow the results.
        """
        program, call, found, wide = self._find(args, kwargs)
        with x64() if wide or program.wide else contextlib.nullcontext():
            return program.donating.lower(*operands_of(program, call, found))  # type: ignore[attr-defined, no-any-return]

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> jax.stages.Traced:
        """Return the traced form for these arguments, as ``jax.jit(f).trace`` does; see `lower`."""
        program, call, found, wide = self._find(args, kwargs)
        with x64() if wide or program.wide else contextlib.nullcontext():
            return program.donating.trace(*operands_of(program, call, found))  # type: ignore[attr-defined, no-any-return]

    def clear_cache(self) -> None:
        """Forget every traced signature."""
        self._programs.clear()
        self._flat.clear()
        self._methods.clear()

    # -- methods

    def _bound_to(self, instance: object) -> Compiled[..., R]:
        """Return the function with its first parameter bound: a tree is an argument, anything else is captured."""
        if not jax.tree_util.all_leaves([instance]) or type(instance) is Array:
            return functools.partial(self, instance)  # type: ignore[return-value, arg-type]
        key = id(instance)
        known = self._methods.get(key)
        if known is None:
            template = Compiled(
                self.fn,
                tuple(i - 1 for i in self.static_argnums if i),
                self.static_argnames,
                tuple(i - 1 for i in self.donate_argnums if i),
                self.donate_argnames,
            )
            try:
                alive: object = weakref.ref(instance, lambda _: self._methods.pop(key, None))
            except TypeError:
                alive = instance
            known = self._methods[key] = alive, template
        # What is kept must not hold the instance; the function bound to it is made anew, and shares the programs.
        bound: Compiled[..., R] = object.__new__(Compiled)
        bound.__dict__.update(known[1].__dict__)
        bound.fn = self.fn.__get__(instance)
        return bound

    # -- signatures

    def _call_flat(self, args: tuple[object, ...]) -> object:
        """Run a call whose arguments are distinct Arrays of a signature seen before; `_UNKNOWN` when it is not one."""
        wide = self._state.get("wide", False)
        operands: list[object] = []
        avals = []
        for handle in args:
            if type(handle) is not Array:
                return _UNKNOWN
            data = handle._data
            if type(data) is not ArrayImpl:
                return _UNKNOWN
            wide = wide or data.dtype in WIDE
            operands.append(data)
            avals.append(data.aval)
            del data  # donation counts the references
        previous = X64_UNSET
        try:
            if wide:
                previous = swap_x64(True)
            program = self._flat.get((*avals, *_context()))
            if program is None or (len(args) > 1 and len({id(handle) for handle in args}) != len(args)):
                return _UNKNOWN
            call = Call(_no_rebuild, [], [], operands, list(args))  # type: ignore[arg-type]
            found = bind(program, self.fn, call) if program.captured else []
            if found is None:
                return _UNKNOWN
            del operands
            return run(program, self.name, call, found)
        finally:
            if wide:
                restore_x64(previous)

    def _find(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Program, Call, list[Handle | None], bool]:
        """Return the program for these arguments, tracing it when there is none that fits."""
        if self.static_argnums or self.static_argnames:
            dynamic, named, static, merge = self._split(args, kwargs)
        else:
            dynamic, named, static, merge = args, kwargs, (), None
        leaves, treedef = flatten((dynamic, named))
        call = take_apart(self.name, leaves, treedef, merge)
        wide = needs_x64(leaves) or self._captures_wide()
        previous = X64_UNSET
        try:
            if wide:
                previous = swap_x64(True)
            avals, context = _avals(call), _context()
            slots = tuple(call.slots)
            key = (treedef, static, tuple(call.kinds), (slots, call.taken) if call.taken else slots, avals, context)
            found = self._match(key, call)
            if found is None:
                with _tracing_lock:
                    found = self._match(key, call)
                    if found is None:
                        found = self._trace(key, call, dynamic, named)
            if found[0].keep and not (named or static or call.taken) and len(dynamic) == len(leaves):
                if all(handle is arg for handle, arg in zip(call.handles, dynamic, strict=False)):
                    if len(self._flat) >= _MAX_SIGNATURES:
                        self._flat.clear()
                    self._flat[(*avals, *context)] = found[0]
            return (*found, wide)
        finally:
            if wide:
                restore_x64(previous)

    def _captures_wide(self) -> bool:
        """Whether the code names a 64-bit Array that it does not receive; looked up once."""
        known = self._state.get("wide")
        if known is None:
            known = self._state["wide"] = needs_x64(list(paths.reachable(self.fn)))
        return known

    def _match(self, key: tuple[Any, ...], call: Call) -> tuple[Program, Call, list[Handle | None]] | None:
        for program in self._programs.get(key, ()):
            found = bind(program, self.fn, call)
            if found is not None:
                return program, call, found
        return None

    def _trace(
        self, key: tuple[Any, ...], call: Call, dynamic: tuple[object, ...], named: dict[str, object]
    ) -> tuple[Program, Call, list[Handle | None]]:
        signature = self._describe(call, dynamic, named, key)
        compiles.note_trace(self.name, signature, self._signatures)
        program, found = trace(self.fn, self.name, call, self._donated(call, dynamic, named) | call.taken)
        if program.keep:
            if len(self._programs) >= _MAX_SIGNATURES:
                del self._programs[next(iter(self._programs))]
                del self._signatures[0]
            self._programs.setdefault(key, []).insert(0, program)
        self._signatures.append(signature)
        return program, call, found

    def _describe(
        self, call: Call, dynamic: tuple[object, ...], named: dict[str, object], key: tuple[Any, ...]
    ) -> compiles.Signature:
        """Return the signature in words, for `explain_compiles`."""
        _, static, _, _, _, context = key
        fixed = static[1] if static else ()
        taken = {place for place, _, _ in fixed}
        positions = [i for i in range(len(dynamic) + len(taken)) if i not in taken]
        labelled = {self._label(i): value for i, value in zip(positions, dynamic, strict=False)} | named
        texts: list[tuple[str, str]] = []
        slots = iter(call.slots)
        for label, value in labelled.items():
            for way, _ in jax.tree_util.tree_flatten_with_path(value, is_leaf=is_array)[0]:
                slot = next(slots)
                texts.append((label + jax.tree_util.keystr(way), _text(call.kinds[slot], call.operands[slot])))
        texts += [(self._label(place), f"static {value!r}") for place, _, value in fixed]
        structure = tuple((label, jax.tree.structure(value, is_leaf=is_array)) for label, value in labelled.items())
        return compiles.Signature(structure, tuple(texts), context)

    # -- static and donated arguments

    def _split(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[
        tuple[object, ...], dict[str, object], Hashable, Callable[..., tuple[tuple[object, ...], dict[str, object]]]
    ]:
        """Separate the static arguments; return the dynamic ones, the statics as a key, and how to merge them."""
        count = len(args)
        fixed = {i % count: args[i] for i in self.static_argnums if -count <= i < count}
        named_fixed = {name: kwargs[name] for name in kwargs if name in self.static_argnames}
        key: list[tuple[object, object, object]] = []
        for place, value in (*sorted(fixed.items()), *sorted(named_fixed.items())):
            try:
                hash(value)
            except TypeError as error:
                raise InvalidArgument(
                    self.name,
                    self._label(place),
                    got=f"a static value of type {type(value).__name__}, which has no hash",
                    wanted="a hashable value",
                    remedy="Use a tuple instead of a list, or do not list the argument as static.",
                    arg=self._label(place),
                    reason="not hashable",
                ) from error
            key.append((place, _typed(value), value))
        dynamic = tuple(value for i, value in enumerate(args) if i not in fixed)
        named = {name: value for name, value in kwargs.items() if name not in named_fixed}

        def merge(
            values: tuple[object, ...], keywords: dict[str, object]
        ) -> tuple[tuple[object, ...], dict[str, object]]:
            rest = iter(values)
            return tuple(fixed[i] if i in fixed else next(rest) for i in range(count)), {**keywords, **named_fixed}

        return dynamic, named, (count, tuple(key)), merge

    def _label(self, place: object) -> str:
        """Name an argument by its position."""
        if isinstance(place, int):
            names = _parameter_names(self.fn)
            return names[place] if place < len(names) else f"number {place}"
        return str(place)

    def _donated(self, call: Call, dynamic: tuple[object, ...], named: dict[str, object]) -> frozenset[int]:
        """Return the operands that belong to donated arguments."""
        if not self.donate_argnums and not self.donate_argnames:
            return frozenset()
        count = len(dynamic) + len(self.static_argnums)
        given = {i % count for i in self.donate_argnums if -count <= i < count} if count else set()
        positions = [i for i in range(count) if i not in {j % count for j in self.static_argnums}]
        donated: set[int] = set()
        start = 0
        for position, value in zip(positions, dynamic, strict=False):
            size = len(flatten(value)[0])
            if position in given:
                donated.update(call.slots[start : start + size])
            start += size
        for name in sorted(named):
            size = len(flatten(named[name])[0])
            if name in self.donate_argnames:
                donated.update(call.slots[start : start + size])
            start += size
        return frozenset(donated)


def _typed(value: object) -> object:
    """Return what tells values apart that are equal: types (``1 == True == 1.0``) and the signs of zeros."""
    if isinstance(value, float | complex):
        return type(value), repr(value)
    if isinstance(value, tuple):
        return type(value), *(_typed(part) for part in value)
    return type(value)


def _no_rebuild(values: list[object]) -> tuple[tuple[object, ...], dict[str, object]]:
    raise AssertionError("only a trace rebuilds arguments")


def take_apart(
    name: str,
    leaves: list[object],
    treedef: jax.tree_util.PyTreeDef,
    merge: Callable[..., tuple[tuple[object, ...], dict[str, object]]] | None,
) -> Call:
    """Return the arguments of one call, given as the leaves of a tree, as operands of a trace."""
    slots: list[int] = []
    kinds: list[str] = []
    operands: list[object] = []
    handles: list[Array | None] = []
    seen: dict[int, int] = {}
    taken: list[int] = []
    kind: str
    data: object
    handle: Array | None
    for leaf in leaves:
        if type(leaf) is Array:
            slot = seen.get(id(leaf))
            if slot is not None:
                slots.append(slot)
                continue
            seen[id(leaf)] = len(operands)
            if type(leaf._data) is Given and is_local(leaf):
                leaf._data = leaf._data.data
                taken.append(len(operands))
            kind, data, handle = ARRAY, data_of(leaf), leaf
        else:
            handle = None
            if type(leaf) is Lazy:  # a tensor of a Fusion backend
                kind, data = PLAIN, resolve(leaf)
            elif isinstance(leaf, jax.Array):
                kind, data = PLAIN, leaf
            elif isinstance(leaf, bool | int | float | complex) and not isinstance(leaf, np.generic):
                kind, data = NUMBER, leaf
                if isinstance(leaf, int) and not _INT64.min <= leaf <= _INT64.max:
                    raise ScalarOverflow(
                        name,
                        got=f"the integer {leaf} as an argument",
                        wanted=f"a value from {_INT64.min} to {_INT64.max}",
                        remedy="Pass a float, or list the argument in static_argnums or static_argnames.",
                        arg="",
                        reason="out of range",
                        dtype=np.dtype(np.int64),
                    )
            elif isinstance(leaf, np.ndarray | np.generic):
                kind, data = ARRAY, lift(leaf, None, name)
            else:
                raise UnsupportedDType(
                    name,
                    got=f"an argument of type {type(leaf).__name__}",
                    wanted="Arrays, plain arrays, numbers, and containers of them",
                    remedy=getattr(type(leaf), "_remedy", "List the argument in static_argnums or static_argnames."),
                    dtype=type(leaf).__name__,
                    op=name,
                )
        slots.append(len(operands))
        kinds.append(kind)
        operands.append(data)
        handles.append(handle)

    def rebuild(values: list[object]) -> tuple[tuple[object, ...], dict[str, object]]:
        args, kwargs = treedef.unflatten(values)
        return (args, kwargs) if merge is None else merge(args, kwargs)

    return Call(rebuild, slots, kinds, operands, handles, frozenset(taken))


def _avals(call: Call) -> tuple[object, ...]:
    """What a trace assumes of its operands; a number stands for every number of its type."""
    return tuple(
        type(data) if kind == NUMBER else data.aval  # type: ignore[attr-defined]
        for kind, data in zip(call.kinds, call.operands, strict=True)
    )


def _text(kind: str, data: object) -> str:
    if kind == NUMBER:
        return f"number {type(data).__name__}"
    return f"dtype {data.dtype}; shape {data.shape}"  # type: ignore[attr-defined]


def _context() -> tuple[object, ...]:
    """Settings that a trace depends on."""
    return (
        trace_context(),
        _config.matmul_precision(),
        default_float(None),
        default_int(None),
        default_complex(None),
    )


def _parameter_names(fn: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def _resolve(
    fn: Callable[..., object], nums: int | Iterable[int] | None, names: str | Iterable[str] | None
) -> tuple[tuple[int, ...], frozenset[str]]:
    """Complete positions by names and names by positions, as far as the signature tells."""
    positions = () if nums is None else (nums,) if isinstance(nums, int) else tuple(nums)
    named = () if names is None else (names,) if isinstance(names, str) else tuple(names)
    parameters = _parameter_names(fn)
    all_positions = {*positions, *(parameters.index(name) for name in named if name in parameters)}
    all_names = {*named, *(parameters[i] for i in positions if -len(parameters) <= i < len(parameters))}
    return tuple(sorted(all_positions)), frozenset(all_names)


@overload
def jit(
    fn: Callable[P, R],
    /,
    *,
    static_argnums: int | Iterable[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Iterable[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
) -> Compiled[P, R]: ...
@overload
def jit(
    fn: None = ...,
    /,
    *,
    static_argnums: int | Iterable[int] | None = ...,
    static_argnames: str | Iterable[str] | None = ...,
    donate_argnums: int | Iterable[int] | None = ...,
    donate_argnames: str | Iterable[str] | None = ...,
) -> Callable[[Callable[P, R]], Compiled[P, R]]: ...
def jit(
    fn: Callable[P, R] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
) -> Compiled[P, R] | Callable[[Callable[P, R]], Compiled[P, R]]:
    """Compile a function of Arrays.

    Parameters
    ----------
    fn
        A function of Arrays, plain arrays, numbers, and containers of them. Without it a decorator is returned.
    static_argnums, static_argnames
        Arguments that are Python values: hashable, and a new value traces anew.
    donate_argnums, donate_argnames
        Arguments that the caller gives up, so that their memory is reused. Reading such an Array afterwards raises
        `UseAfterMove`. Arguments that the function writes to need no mention: they are updated in place.

    Returns
    -------
    Compiled
        A callable with the signature of `fn`, and the methods ``lower`` and ``clear_cache``.

    Raises
    ------
    InvalidArgument
        At a call: a static value has no hash.
    UnsupportedDType
        At a call: an argument is neither static nor an array.
    ConcretizationError
        While tracing: the function asks for a value, as in ``if x > 0``.

    Notes
    -----
    Writes to arguments reach the caller's Arrays, in place where the caller owns the memory alone. An Array that
    the function reads or writes without receiving it (a closure, a global, an attribute) is found when it is first
    touched; it is read at each call and written back. Other effects of Python happen once, while tracing: keep the
    value of an attribute with ``self.x[...] = y``, not with ``self.x = y``. When the function raises, no Array has
    changed.

    Examples
    --------
    >>> import rtx_jax as xp
    >>> @xp.jit
    ... def step(x, rate):
    ...     x -= rate * x
    >>> x = xp.asarray([1.0, 2.0])
    >>> step(x, 0.5)
    >>> x
    Array([0.5, 1. ])
    """
    if fn is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
        )  # type: ignore[return-value]
    check_function("jit", "fn", fn)
    return Compiled(fn, *_resolve(fn, static_argnums, static_argnames), *_resolve(fn, donate_argnums, donate_argnames))
