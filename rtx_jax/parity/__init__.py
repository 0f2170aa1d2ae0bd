"""Parity: does this device compute right?

`run` compares every operation of the namespace and of the Backend with what is right, in every dtype, eagerly, under
jit, mapped and differentiated; `check` does it with a function of one's own. ``rtx-jax parity`` is `run` as a command.
"""

from __future__ import annotations

from .case import EDGES, MODES
from .checks import check
from .faults import FAULTS
from .page import write_html
from .results import Failure, Outcome, Report, Summary
from .session import run

__all__ = ["EDGES", "FAULTS", "MODES", "Failure", "Outcome", "Report", "Summary", "check", "run", "write_html"]
