"""The table of operations, one file per chapter of the standard and one for the Backend."""

from __future__ import annotations

from ...errors import InvalidArgument
from .._suggest import closest
from ..case import Operation
from . import creation, elementwise, fourier, linear_algebra, manipulation, searching, statistical

__all__ = ["namespace_operations", "select"]


def namespace_operations() -> tuple[Operation, ...]:
    """Return the operations of the namespace, in the order of the chapters."""
    chapters = (creation, elementwise, manipulation, searching, statistical, linear_algebra, fourier)
    return tuple(operation for chapter in chapters for operation in chapter.operations())


def select(operations: tuple[Operation, ...], names: tuple[str, ...], /) -> tuple[Operation, ...]:
    """Return the operations of these names, in the order of the table; all of them without names.

    Raises
    ------
    InvalidArgument
        There is no operation of that name.
    """
    if not names:
        return operations
    known = [operation.name for operation in operations]
    for name in names:
        if name not in known:
            near = closest(name, known)
            raise InvalidArgument(
                "parity",
                "op",
                got=repr(name),
                wanted=f"one of the {len(known)} operations of the table",
                remedy=f"Did you mean {near}?" if near else "",
                arg="op",
                reason="no such operation",
            )
    return tuple(operation for operation in operations if operation.name in names)
