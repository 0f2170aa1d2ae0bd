"""Program: one traced signature of a compiled function, and how a call of it runs.

Operands are the distinct array leaves of the arguments, the captured Arrays, and a random key where one is drawn.
Outputs are the distinct new arrays of the result and the new values of the Arrays that the function wrote to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np

from .. import _config
from .._array import Array, lift, wrap
from .._compat import X64_UNSET, ArrayImpl, ClosedJaxpr, restore_x64, split_hidden, swap_x64
from ..core.dispatch import raise_translated
from ..core.handle import MOVED, Handle, check_write, data_of, held, rebind, tracing
from ..core.nans import has_nan
from ..core.random import Stream, global_stream
from ..errors import TracedMutation
from . import paths
from .donation import give_up, run_donating
from .nans import raise_first_nan
from .scope import JitScope, entered
from .trees import ARRAY, NUMBER, flatten, strengthen

__all__ = ["Call", "Captured", "Program", "bind", "run", "trace"]

WRITE = "a write inside of a compiled function"


@dataclass(slots=True)
class Call:
    """The arguments of one call, taken apart.

    Attributes
    ----------
    rebuild
        Puts leaves back into positional and keyword arguments.
    slots
        For each leaf, the index of its operand: an Array passed twice has one operand.
    kinds, operands, handles
        For each operand its kind, its raw array, and the caller's handle where there is one.
    taken
        Operands of handles that were given up for this call.
    """

    rebuild: Callable[[list[object]], tuple[tuple[object, ...], dict[str, object]]]
    slots: list[int]
    kinds: list[str]
    operands: list[object]
    handles: list[Array | None]
    taken: frozenset[int] = frozenset()


@dataclass(slots=True)
class Captured:
    """An Array that a function reaches without receiving it.

    Attributes
    ----------
    path
        How to find it again at each call, or None where `handle` itself is kept.
    handle
        The handle of the trace; None when there is a path.
    aval
        What the trace assumed of it.
    argument
        Index of the operand that it also was, or None.
    """

    path: paths.Path | None
    handle: Handle | None
    aval: object
    argument: int | None = None


@dataclass(slots=True)
class Program:
    """One traced signature.

    Attributes
    ----------
    closed
        The jaxpr: takes the operands of the arguments, then those in `hidden`; returns the outputs.
    hidden
        For each hidden operand its index into `captured`, or a negative index: -1 is the first of `streams`.
    streams
        The random streams that the function draws from; None stands for the global one, whichever that is now.
    result
        How to build each leaf of the result: ``("new" | "plain", output)``, ``("argument", operand)``,
        ``("captured", index)``, ``("same", leaf)`` or ``("value", index into values)``.
    values
        Leaves of the result that are not arrays.
    argument_writes, captured_writes
        ``(operand or index, output)`` pairs.
    donated, taken
        Operands whose memory the call may use; those among them whose handles are given up, under a trace too.
    pure, single
        It has neither hidden operands nor writes or donations; its result is one leaf.
    wide
        64-bit types occur inside, so it compiles and runs with x64 on.
    keep
        False when the trace holds tracers of an outer trace, so that it serves one call.
    """

    closed: ClosedJaxpr
    hidden: list[int]
    streams: list[Stream | None]
    captured: list[Captured]
    out_tree: jax.tree_util.PyTreeDef
    result: list[tuple[str, int]]
    values: list[object]
    argument_writes: list[tuple[int, int]]
    captured_writes: list[tuple[int, int]]
    keep: bool
    donated: frozenset[int]
    taken: frozenset[int]
    plain: Callable[..., list[jax.Array]]
    donating: Callable[..., list[jax.Array]]
    pure: bool
    single: bool
    wide: bool


def trace(
    fn: Callable[..., object], name: str, call: Call, donated: frozenset[int]
) -> tuple[Program, list[Handle | None]]:
    """Trace `fn` once; return the program and its captured handles. x64 has been entered where operands need it."""
    scope = JitScope()
    plan = _Plan()
    before = paths.snapshot(fn)

    def flat(*raw: jax.Array) -> list[jax.Array]:
        with scope.running():
            try:
                plan.run(fn, call, raw, scope)
            finally:
                rebound = _restore_names(fn, before, scope)
            if rebound:
                raise TracedMutation(
                    name,
                    got=f"a function that binds {rebound} to a new Array, which has no value outside of the trace",
                    wanted="a write into the Array that the name had",
                    remedy="Write name[...] = value instead of name = value.",
                )
        outputs, plan.outputs = plan.outputs, []
        scope.release()
        return outputs

    with entered(False):
        split = split_hidden(jax.make_jaxpr(flat)(*call.operands))
    pure = split.pure
    captured: list[Captured] = []
    found: list[Handle | None] = []
    position: dict[int, int] = {}
    for key, operand in scope.operands.items():
        path = before[key][1] if key in before else None
        if operand.local is None:
            position[operand.index] = len(captured)
            pure = pure and (path is not None or not isinstance(held(operand.handle), jax.core.Tracer))
            captured.append(Captured(path, None if path else operand.handle, operand.aval))
            found.append(operand.handle)
        elif path is not None:
            found.append(None)
            captured.append(Captured(path, None, operand.aval, operand.index))
    _name(function := _listed(split.function), name)
    hidden = [index if index < 0 else position[index] for index in split.indices]
    argument_count = len(call.operands)
    donated = donated | plan.taken
    written = {operand for operand, _ in plan.argument_writes}
    captured_writes = [(position[index], output) for index, output in plan.captured_writes]
    written_hidden = {index for index, _ in captured_writes}
    donate = sorted(written | donated) + [
        argument_count + i for i, index in enumerate(hidden) if index in written_hidden
    ]
    plain = jax.jit(function)
    program = Program(
        closed=split.closed,
        hidden=hidden,
        streams=[None if stream is global_stream.get() else stream for stream in scope.streams],
        captured=captured,
        out_tree=plan.out_tree,
        result=[(kind, position[value] if kind == "captured" else value) for kind, value in plan.result],
        values=plan.values,
        argument_writes=plan.argument_writes,
        captured_writes=captured_writes,
        keep=pure,
        donated=donated,
        taken=call.taken | plan.taken,
        plain=plain,
        donating=jax.jit(function, donate_argnums=tuple(donate)) if donate else plain,
        pure=not (hidden or donate),
        wide=split.wide,
        single=plan.out_tree == jax.tree.structure(0),
    )
    return program, found


def _restore_names(fn: Callable[..., object], before: dict[int, tuple[Handle, paths.Path]], scope: JitScope) -> str:
    """Bind names that the trace bound to its own Arrays to what they had; return them in words."""
    rebound = []
    for handle, path in before.values():
        now = paths.follow(fn, path)
        if now is not handle and type(now) is Array and scope.contains(now):
            paths.assign(fn, path, handle)
            rebound.append(paths.describe(path))
    return ", ".join(rebound)


class _Plan:
    """What the trace finds out: the outputs, and how results and writes are made of them."""

    def __init__(self) -> None:
        self.outputs: list[jax.Array] = []
        self.result: list[tuple[str, int]] = []
        self.values: list[object] = []
        self.argument_writes: list[tuple[int, int]] = []
        self.captured_writes: list[tuple[int, int]] = []
        self.taken: set[int] = set()  # arguments that the function gave up

    def run(self, fn: Callable[..., object], call: Call, raw: Sequence[jax.Array], scope: JitScope) -> None:
        values: list[object] = []
        for i, data in enumerate(raw):
            if call.kinds[i] in (ARRAY, NUMBER):
                local = wrap(data)
                handle = call.handles[i]
                if handle is not None:
                    scope.add_argument(handle, local, i)
                values.append(local)
            else:
                values.append(data)
        args, kwargs = call.rebuild([values[slot] for slot in call.slots])
        result = fn(*args, **kwargs)
        self._collect(result, call, values, scope)
        for i, value in enumerate(values):
            if call.handles[i] is None or value._data is raw[i]:  # type: ignore[attr-defined]
                continue
            if value._data is MOVED:  # type: ignore[attr-defined]
                self.taken.add(i)
            else:
                self.argument_writes.append((i, self._add(held(value))))  # type: ignore[arg-type]
        for operand in scope.operands.values():
            if operand.written:
                self.captured_writes.append((operand.index, self._add(operand.value)))

    def _collect(self, result: object, call: Call, values: list[object], scope: JitScope) -> None:
        leaves, self.out_tree = flatten(result)
        arguments = {id(value): i for i, value in enumerate(values) if call.handles[i] is not None}
        seen: dict[int, int] = {}
        for i, leaf in enumerate(leaves):
            if type(leaf) is Array:
                operand = scope.operands.get(id(leaf))
                if id(leaf) in arguments:
                    self.result.append(("argument", arguments[id(leaf)]))
                elif operand is not None and operand.local is not None:
                    self.result.append(("argument", operand.index))
                elif operand is not None or not scope.contains(leaf):
                    scope.lift(leaf, held(leaf))
                    self.result.append(("captured", scope.operands[id(leaf)].index))
                elif id(leaf) in seen:
                    self.result.append(("same", seen[id(leaf)]))
                else:
                    seen[id(leaf)] = i
                    self.result.append(("new", self._add(data_of(leaf))))
            elif isinstance(leaf, jax.Array):
                self.result.append(("plain", self._add(leaf)))
            elif isinstance(leaf, np.ndarray | np.generic):
                self.result.append(("new", self._add(lift(leaf))))
            else:
                self.result.append(("value", len(self.values)))
                self.values.append(leaf)

    def _add(self, data: jax.Array) -> int:
        self.outputs.append(strengthen(data))
        return len(self.outputs) - 1


def _listed(function: Callable[..., Sequence[jax.Array]]) -> Callable[..., list[jax.Array]]:
    def call(*operands: jax.Array) -> list[jax.Array]:
        outputs: list[jax.Array] = list(function(*operands))
        return outputs

    return call


def _name(function: Callable[..., object], name: str) -> None:
    function.__name__ = function.__qualname__ = name


def bind(program: Program, root: object, call: Call) -> list[Handle | None] | None:
    """Return the captured handles as they are now (None where an argument stands in), or None when they do not fit."""
    found: list[Handle | None] = []
    for item in program.captured:
        handle = item.handle if item.path is None else paths.follow(root, item.path)
        if item.argument is not None:
            if handle is not call.handles[item.argument]:
                return None
            found.append(None)
        else:
            if type(handle) is not Array or jax.typeof(data_of(handle)) != item.aval:
                return None
            found.append(handle)
    if found and (program.captured_writes or program.argument_writes):
        distinct = [id(handle) for handle in (*found, *call.handles) if handle is not None]
        if len(set(distinct)) != len(distinct):
            return None  # two names of the trace mean one Array now
    return found


def operands_of(program: Program, call: Call, found: list[Handle | None]) -> list[object]:
    """Return all operands of a call: those of the arguments, then the hidden ones."""
    operands = list(call.operands)
    for index in program.hidden:
        operands.append(_draw(program.streams[-1 - index]) if index < 0 else data_of(found[index]))  # type: ignore[arg-type]
    return operands


def run(program: Program, name: str, call: Call, found: list[Handle | None]) -> object:
    """Run a program, write back what it wrote, and return the result."""
    if not program.wide:
        return _run(program, name, call, found)
    previous = X64_UNSET
    try:
        previous = swap_x64(True)
        return _run(program, name, call, found)
    finally:
        restore_x64(previous)


def _run(program: Program, name: str, call: Call, found: list[Handle | None]) -> object:
    if program.pure:
        outputs = _run_plain(program, name, call.operands)
        return _result(program, call, found, outputs)
    written: list[tuple[Handle, int, int]] = [
        (call.handles[operand], operand, output)  # type: ignore[misc]
        for operand, output in program.argument_writes
    ]
    if program.captured_writes:
        place = {index: len(call.operands) + i for i, index in enumerate(program.hidden)}
        written += [(found[index], place[index], output) for index, output in program.captured_writes]  # type: ignore[misc]
    operands = operands_of(program, call, found)
    if tracing.settle():
        if written or program.donated:
            given = [(call.handles[i], i) for i in sorted(program.donated)]
            call.operands = []  # whether an array may be donated is seen from its references
            if _config.donation() and not _config.debug_nans():
                outputs = run_donating(program.donating, name, operands, written, given)
            else:
                outputs = _run_plain(program, name, operands)
                give_up(given, operands, written)
                for handle, _, output in written:
                    handle._data = outputs[output]
                    handle._owned = True
        else:
            outputs = _run_plain(program, name, operands)
    else:
        for handle, _, _ in written:
            check_write(handle, WRITE)
        outputs = _run_plain(program, name, operands)
        for handle, _, output in written:
            rebind(handle, outputs[output], WRITE)
        for i in program.taken:
            if (owner := call.handles[i]) is not None:
                owner._data = MOVED
    return _result(program, call, found, outputs)


def _run_plain(program: Program, name: str, operands: list[object]) -> list[jax.Array]:
    try:
        outputs = program.plain(*operands)
    except Exception as error:
        raise_translated(name, error)
    if _config.debug_nans() and tracing.settle() and has_nan(outputs):
        raise_first_nan(name, program.closed, operands)
    return outputs


def _result(program: Program, call: Call, found: list[Handle | None], outputs: list[jax.Array]) -> object:
    leaves: list[object] = []
    for kind, value in program.result:
        if kind == "new":
            data = outputs[value]
            if type(data) is ArrayImpl and not tracing.active:
                handle = object.__new__(Array)
                handle._data = data
                handle._owned = True
                leaves.append(handle)
            else:
                leaves.append(wrap(data))
        elif kind == "plain":
            leaves.append(outputs[value])
        elif kind == "argument":
            leaves.append(call.handles[value])
        elif kind == "captured":
            leaves.append(found[value])
        elif kind == "same":
            leaves.append(leaves[value])
        else:
            leaves.append(program.values[value])
    if program.single:
        return leaves[0]
    return program.out_tree.unflatten(leaves)


def _draw(stream: Stream | None) -> jax.Array:
    stream = global_stream.get() if stream is None else stream
    if tracing.scopes:
        return tracing.scopes[-1].random_key(stream)  # type: ignore[return-value]
    return stream.draw_data()
