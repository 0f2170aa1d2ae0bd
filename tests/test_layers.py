"""Imports point only up the list of layers."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rtx_jax"

# From the bottom up. A file may import from its own layer and from those before it.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "checks", "_compat", "_config", "_numpy_names", "_version"),
    ("core",),
    ("raw", "kernels", "ops"),
    ("_methods", "_array", "_at", "_interop", "_chained", "_text"),
    ("namespace", "linalg", "fft", "random", "testing", "io", "nn", "transforms", "_cache", "_settings"),
    ("__init__",),
    ("backend", "quant", "runtime", "kv"),
    ("parallel",),
    ("lm", "parity", "bench"),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(PACKAGE.rglob("*.py"))


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_layers(path: Path) -> list[tuple[int, str]]:
    """Line and layer of each import of rtx_jax in `path`, inside functions too; imports for types alone are free."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    folder = ("rtx_jax", *path.relative_to(PACKAGE).parts[:-1])
    for_types = {
        id(node)
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        and ast.unparse(branch.test) in ("TYPE_CHECKING", "_TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in branch.body
        for node in ast.walk(statement)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            targets = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = list(folder[: len(folder) - node.level + 1]) if node.level else []
            base += node.module.split(".") if node.module else []
            targets = [[*base, alias.name] for alias in node.names]
        else:
            continue
        for parts in targets:
            if parts[0] == "rtx_jax":
                name = parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__"
                found.append((node.lineno, name))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_up(path: Path) -> None:
    layer = layer_of(path)
    assert layer in RANK, f"{path.name} is in no layer: add it to LAYERS"
    wrong = [f"line {line}: {name}" for line, name in imported_layers(path) if RANK[name] > RANK[layer]]
    assert not wrong, f"{layer} imports from a later layer: {wrong}"


def test_private_jax_stays_in_compat() -> None:
    wrong = []
    for path in FILES:
        if path.name == "_compat.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Attribute):
                names = [ast.unparse(node)]
            wrong += [
                f"{path.relative_to(PACKAGE)}:{node.lineno} {name}"
                for name in names
                if name.startswith(("jax._src", "jax.extend"))
            ]
    assert not wrong


def test_the_walk_sees_a_wrong_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    file = tmp_path / "core" / "dispatch.py"
    file.parent.mkdir()
    file.write_text(
        "from .._array import Array\nfrom . import dtypes\nimport rtx_jax.cli\nfrom ..errors import RtxError\n"
    )
    assert imported_layers(file) == [(1, "_array"), (2, "core"), (3, "cli"), (4, "errors")]
