"""Reading the demo's data, and the errors that name the file, the line and the column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rtx_jax.cli.dataset import digits, read_csv
from rtx_jax.errors import FormatError, InvalidArgument


def write(folder: Path, text: str, encoding: str = "utf-8") -> Path:
    path = folder / "data.csv"
    path.write_bytes(text.encode(encoding))
    return path


ROWS = "\n".join(f"{i},{i * 0.5},{'cat' if i % 2 else 'dog'}" for i in range(8))


def test_digits() -> None:
    data = digits()
    assert data.features.shape == (1797, 64)
    assert data.features.dtype == np.float64
    assert data.target.dtype == np.int64
    assert data.classes == tuple("0123456789")


def test_text_in_the_target_names_classes(tmp_path: Path) -> None:
    data = read_csv(write(tmp_path, "a,b,kind\n" + ROWS), "kind")
    assert data.classes == ("cat", "dog")
    assert data.target.tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
    assert data.features[3].tolist() == [3.0, 1.5]


def test_whole_numbers_in_the_target_are_classes(tmp_path: Path) -> None:
    text = "y,a\n" + "\n".join(f"{(i % 2) * 7},{i}" for i in range(8))
    data = read_csv(write(tmp_path, text), "y")
    assert data.classes == ("0", "7")
    assert data.target.tolist() == [0, 1] * 4


def test_other_numbers_in_the_target_are_a_quantity(tmp_path: Path) -> None:
    data = read_csv(write(tmp_path, "a,y\n1,0.5\n2,1.5\n3,-2e3\n"), "y")
    assert data.classes == ()
    assert data.target.tolist() == [0.5, 1.5, -2000.0]
    assert data.target.dtype == np.float64


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_delimiters_blank_lines_and_a_byte_order_mark(tmp_path: Path, delimiter: str) -> None:
    text = "\ufeff" + "a,y\n1,0.5\n\n2,1.5\n".replace(",", delimiter)
    data = read_csv(write(tmp_path, text), "y")
    assert data.features.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("target", [None, "label"])
def test_no_such_target(tmp_path: Path, target: str | None) -> None:
    with pytest.raises(InvalidArgument, match=r"--target: got .*wanted a column of .*'a', 'b', 'kind'"):
        read_csv(write(tmp_path, "a,b,kind\n" + ROWS), target)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"--input: got .*none.csv \(No such file or directory\)") as caught:
        read_csv(tmp_path / "none.csv", "y")
    assert isinstance(caught.value.__cause__, FileNotFoundError)


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Is a directory"):
        read_csv(tmp_path, "y")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,y\n1,0.5\nred,1.5\n", r"got 'red' in column 'a', line 3 of .*Leave the column out"),
        ("a,y\n1,0.5\n,1.5\n", r"got '' in column 'a', line 3"),
        ("a,y\n1,0.5\ninf,1.5\n", r"got 'inf' in column 'a', line 3"),
        ("a,y\n1,0.5\n2,nan\n", r"got 'nan' in column 'y', line 3"),
        ("a,y\n1,0.5\n2,oops\n", r"got 'oops' in column 'y', line 3"),
        ("a,y\n1,cat\n2,\n", r"got '' in column 'y', line 3"),
        ("a,y\n1,0.5\n2\n", r"got 1 cells in line 3 of .*wanted 2"),
        ("a,y\n1,0.5,9\n", r"got 3 cells in line 2"),
        ("a,y\n", r"without rows"),
        ("", r"without rows"),
        ("y\n1.5\n2.5\n", r"got one column"),
        ("a,y\n1,cat\n2,dog\n", r"got 2 classes with 1 rows or more in column 'y'"),
        ("a,y\n1,1\n2,1\n3,1\n4,1\n", r"got 1 classes"),
    ],
)
def test_what_a_file_must_hold(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_csv(write(tmp_path, text), "y")


def test_not_text(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="not text in UTF-8"):
        read_csv(write(tmp_path, "a,y\n1,caf\u00e9\n", "latin-1"), "y")
