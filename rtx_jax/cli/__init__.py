"""The rtx-jax command."""

from __future__ import annotations

import os
import sys

from ..errors import FeatureRequired, RtxError

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments of the process, and exit with its status.

    The status is 0 when all went well, 1 when results disagree, 2 when the input is wrong.
    """
    # SciPy reads this when it is first imported, which nothing before this line does.
    os.environ.setdefault("SCIPY_ARRAY_API", "1")
    try:
        _app()
    except RtxError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _app() -> None:
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        raise FeatureRequired(
            "rtx-jax",
            got=f"no module named {error.name}",
            wanted="the packages of the command",
            remedy="pip install 'rtx-jax[demo]'",
            feature=error.name,
        ) from error
    app()
