"""Measurements that the command and the files in benchmarks/ share."""

from __future__ import annotations

from .operations import OPERATIONS, run
from .plot import draw
from .request import Request
from .results import Measurement, Report
from .timing import Times, alternate, ratio
from .tuner import Trial, tune

__all__ = [
    "OPERATIONS",
    "Measurement",
    "Report",
    "Request",
    "Times",
    "Trial",
    "alternate",
    "draw",
    "ratio",
    "run",
    "tune",
]
