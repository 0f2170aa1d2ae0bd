"""Tables of figures, of which none may be cut."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

__all__ = ["print_figures"]


def print_figures(console: Console, table: Table) -> None:
    """Print a table as wide as its figures need: a terminal breaks a line that is too long, a file has no width.

    rich would cut each figure to what fits into 80 columns, ``0…`` for 0.312, in a pipe too.
    """
    needed = Measurement.get(console, console.options.update(max_width=10_000), table)
    width = console.width
    console.width = max(width, needed.minimum if console.is_terminal else needed.maximum)
    try:
        console.print(table)
    finally:
        console.width = width
