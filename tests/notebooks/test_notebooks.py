"""The notebooks are stored without outputs, match their sources and run from a clean kernel."""

from __future__ import annotations

import os
from pathlib import Path

import jupytext
import nbclient
import nbformat
import pytest

FOLDER = Path(__file__).parent.parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


def test_there_are_notebooks() -> None:
    assert "01_arrays.ipynb" in {path.name for path in NOTEBOOKS}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_without_outputs(path: Path) -> None:
    for cell in read(path).cells:
        if cell.cell_type == "code":
            assert cell.outputs == []
            assert cell.execution_count is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_matches_its_source(path: Path) -> None:
    """After a change of the source: ``jupytext --update --to ipynb notebooks/*.py``."""
    source = jupytext.read(path.with_suffix(".py"))
    assert [(cell.cell_type, cell.source) for cell in read(path).cells] == [
        (cell.cell_type, cell.source) for cell in source.cells
    ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs(path: Path, tmp_path: Path) -> None:
    notebook = read(path)
    environment = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    # The plots have to appear in the notebook, which another backend in the environment would keep out.
    environment.pop("MPLBACKEND", None)
    environment["PYTHONPATH"] = str(FOLDER.parent)
    client = nbclient.NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute(env=environment)
    kinds = [kind for cell in notebook.cells for out in cell.get("outputs", ()) for kind in out.get("data", ())]
    assert kinds.count("image/png") >= 1
