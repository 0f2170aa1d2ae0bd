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
    root
        The folder that the names begin at, wherever the package is installed.

    Raises
    ------
    pytest.UsageError
        A listed test does not exist, though its file was collected.
    """
    lines = listed.read_text(encoding="utf-8").splitlines()
    unwanted = {line for line in lines if line.strip() and not line.startswith("#")}
    by_name = {_name(item, root): item for item in items}
    files = {name.partition("::")[0] for name in by_name}
    unknown = sorted(name for name in unwanted - by_name.keys() if name.partition("::")[0] in files)
    if unknown and not _is_narrowed(config):
        raise pytest.UsageError(f"{listed.name} names tests that do not exist: {unknown}")
    out = {item for name, item in by_name.items() if name in unwanted}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _name(item: pytest.Item, root: Path) -> str:
    return "::".join([item.path.relative_to(root).as_posix(), *item.nodeid.split("::")[1:]])


def _is_narrowed(config: pytest.Config) -> bool:
    """Tell whether single tests of a file were asked for."""
    return any("::" in argument for argument in config.args)
