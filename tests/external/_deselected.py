"""Leave out the tests that a file lists, and refuse a list that no longer fits the suite."""

from __future__ import annotations

from pathlib import Path

import pytest


def leave_out(config: pytest.Config, items: list[pytest.Item], listed: Path, root: Path) -> None:
    """Deselect the listed tests.

    Parameters
    ----------
    config, items
        Of the hook ``pytest_collection_modifyitems``; `items` is changed in place.
    listed
        A file of test names, ``package/tests/test_x.py::Class::test[parameters]``, one a line; ``#`` begins a comment.
        A name without parameters stands for all of them, and one that ends in ``*`` for all that begin like it.
    root
        The folder that the names begin at, wherever the package is installed.

    Raises
    ------
    pytest.UsageError
        A listed test does not exist, though its file was collected.
    """
    lines = listed.read_text(encoding="utf-8").splitlines()
    unwanted = {line for line in lines if line.strip() and not line.startswith("#")}
    names = {item: _name(item, root) for item in items}
    chosen = {line: [item for item, name in names.items() if _fits(name, line)] for line in unwanted}
    files = {name.partition("::")[0] for name in names.values()}
    unknown = sorted(line for line, found in chosen.items() if not found and line.partition("::")[0] in files)
    if unknown and not _is_narrowed(config):
        raise pytest.UsageError(f"{listed.name} names tests that do not exist: {unknown}")
    out = {item for found in chosen.values() for item in found}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _fits(name: str, line: str) -> bool:
    return name.startswith(line[:-1]) if line.endswith("*") else line in (name, name.partition("[")[0])


def _name(item: pytest.Item, root: Path) -> str:
    return "::".join([item.path.relative_to(root).as_posix(), *item.nodeid.split("::")[1:]])


def _is_narrowed(config: pytest.Config) -> bool:
    """Tell whether single tests of a file were asked for."""
    return any("::" in argument for argument in config.args)
