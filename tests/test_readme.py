"""The code of the README and of the guide runs, and prints what its comments say."""

from __future__ import annotations

import contextlib
import io
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PRINTS = re.compile(r"^\s*print\(.*\)\s\s# (.*)$", re.MULTILINE)


def blocks() -> list[object]:
    return [
        pytest.param(block, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, block in enumerate(_BLOCK.findall(page.read_text(encoding="utf-8")), start=1)
    ]


@pytest.mark.parametrize("block", blocks())
def test_code_prints_what_it_says(block: str) -> None:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(block, "<example>", "exec"), {"__name__": "example"})
    assert out.getvalue().splitlines() == _PRINTS.findall(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_readme_names_extras_that_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for names in re.findall(r'pip install (?:-e )?"\.\[(.*?)\]"', (ROOT / "README.md").read_text(encoding="utf-8")):
        assert set(names.split(",")) <= set(extras)


def test_differences_begin_with_the_copy() -> None:
    first = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8").splitlines()[0]
    assert "`r = x[0]; r += 1` is an independent copy" in first


def test_every_method_of_a_backend_is_in_the_guide() -> None:
    from rtx_jax.backend import Backend

    text = (ROOT / "docs" / "backend.md").read_text(encoding="utf-8")
    names = {name for base in Backend.__mro__ if base.__name__.endswith("Methods") for name in vars(base)}
    of_images = {name[:-2] for name in names if name.endswith(("2d", "3d"))}
    assert all(f"`{name}1d`" in text for name in of_images)
    names = {name for name in names if name[:-2] not in of_images and not name.startswith("_")}
    assert [name for name in sorted(names) if f"`{name}`" not in text and f"`{name}(" not in text] == []


def test_every_error_is_in_the_guide() -> None:
    from rtx_jax import errors

    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    assert [name for name in errors.__all__ if f"`{name}`" not in text] == []
