"""What the demo learns from: the digits that scikit-learn ships, or a CSV file."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import FormatError, InvalidArgument

__all__ = ["Dataset", "digits", "read_csv"]

_COMMAND = "rtx-jax demo"
# A target of whole numbers with more values than this is a quantity, not a class.
_MOST_CLASSES = 50


@dataclass(frozen=True, slots=True)
class Dataset:
    """Rows of numbers and what to predict from them.

    Attributes
    ----------
    name
        What the table and the picture call it.
    features
        float64, shape (rows, columns).
    target
        int64 class numbers, or float64 quantities; shape (rows,).
    classes
        The names of the classes in the order of their numbers; empty when `target` is a quantity.
    """

    name: str
    features: NDArray[np.float64]
    target: NDArray[np.int64] | NDArray[np.float64]
    classes: tuple[str, ...]


def digits() -> Dataset:
    """Return the 1,797 handwritten digits of 8 by 8 pixels that come with scikit-learn."""
    from sklearn.datasets import load_digits

    features, target = load_digits(return_X_y=True)
    return Dataset(
        "handwritten digits",
        np.asarray(features, np.float64),
        np.asarray(target, np.int64),
        tuple(str(digit) for digit in range(10)),
    )


def read_csv(path: Path, target: str | None) -> Dataset:
    """Read a CSV file with a header, where every column but the target holds numbers.

    Parameters
    ----------
    path
        The file; comma, semicolon or tab between the columns.
    target
        The column to predict. Text and up to 50 different whole numbers are classes, other numbers a quantity.

    Raises
    ------
    InvalidArgument
        There is no such file, it cannot be read, or it has no such column.
    FormatError
        A row has too few or too many cells, a cell is empty or holds text or an infinity, or there are too few rows.
    """
    header, rows = _rows(path)
    if target is None or target not in header:
        raise InvalidArgument(
            _COMMAND,
            "--target",
            got="nothing" if target is None else f"{target!r}",
            wanted=f"a column of {path}: {', '.join(repr(name) for name in header)}",
            arg="--target",
            reason="no such column",
        )
    if len(header) < 2:
        raise FormatError(_COMMAND, "--input", got=f"one column in {path}", wanted="a column besides the target")
    chosen = header.index(target)
    kept = [column for column in range(len(header)) if column != chosen]
    features = np.empty((len(rows), len(kept)))
    for i, (line, row) in enumerate(rows):
        for j, column in enumerate(kept):
            features[i, j] = _number(path, line, header[column], row[column])
    values, classes = _target(path, target, [(line, row[chosen]) for line, row in rows])
    return Dataset(path.name, features, values, classes)


def _rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row that is not blank with its line number."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidArgument(
            _COMMAND,
            "--input",
            got=f"{path} ({error.strerror})",
            wanted="a CSV file that can be read",
            arg="--input",
            reason=str(error),
        ) from error
    except UnicodeDecodeError as error:
        raise FormatError(
            _COMMAND, "--input", got=f"{path}, which is not text in UTF-8", wanted="a CSV file", remedy=str(error)
        ) from error
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(text.splitlines(), delimiter=delimiter)
    rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise FormatError(_COMMAND, "--input", got=f"{path} without rows", wanted="a header and rows below it")
    header = [name.strip() for name in rows.pop(0)[1]]
    for line, row in rows:
        if len(row) != len(header):
            raise FormatError(
                _COMMAND,
                "--input",
                got=f"{len(row)} cells in line {line} of {path}",
                wanted=f"{len(header)}, as in the header",
            )
    return header, rows


def _number(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError as error:
        raise _not_a_number(path, line, column, cell) from error
    if not math.isfinite(value):
        raise _not_a_number(path, line, column, cell)
    return value


def _not_a_number(path: Path, line: int, column: str, cell: str) -> FormatError:
    return FormatError(
        _COMMAND,
        "--input",
        got=f"{cell!r} in column {column!r}, line {line} of {path}",
        wanted="a finite number in every column but the target",
        remedy="Leave the column out, fill the gap or encode the text as numbers",
    )


def _target(
    path: Path, column: str, cells: list[tuple[int, str]]
) -> tuple[NDArray[np.int64] | NDArray[np.float64], tuple[str, ...]]:
    """The target as class numbers and their names, or as quantities and no names."""
    if not any(_reads_as_number(cell) for _, cell in cells):
        for line, cell in cells:
            if not cell.strip():
                raise _not_a_number(path, line, column, cell)
        names, numbers = np.unique([cell.strip() for _, cell in cells], return_inverse=True)
        return _classes(path, column, numbers), tuple(str(name) for name in names)
    values = np.array([_number(path, line, column, cell) for line, cell in cells])
    distinct, numbers = np.unique(values, return_inverse=True)
    if len(distinct) > _MOST_CLASSES or not np.array_equal(distinct, np.round(distinct)):
        return values, ()
    return _classes(path, column, numbers), tuple(f"{value:.0f}" for value in distinct)


def _reads_as_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _classes(path: Path, column: str, numbers: NDArray[np.intp]) -> NDArray[np.int64]:
    counts = np.bincount(numbers)
    if len(counts) < 2 or counts.min() < 4:
        raise FormatError(
            _COMMAND,
            "--target",
            got=f"{len(counts)} classes with {counts.min()} rows or more in column {column!r} of {path}",
            wanted="two classes or more, with four rows or more of each",
        )
    return numbers.astype(np.int64)
