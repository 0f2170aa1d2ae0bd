"""What a run found: one outcome for each operation, dtype and mode."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .case import Edge, Mode

__all__ = ["BINS", "Failure", "Outcome", "Report", "Status", "Summary", "histogram", "outcome_from", "plain"]

Status: TypeAlias = Literal["passed", "failed", "error", "crashed", "hung", "unsupported"]

BINS: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""Upper ends of the histogram's bins; a last one holds everything above."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The first wrong result of an operation in a dtype and mode.

    Attributes
    ----------
    edge
        The edge of its case.
    what
        What is wrong, in a sentence.
    code
        A program that shows it, small enough to paste.
    """

    edge: Edge
    what: str
    code: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """One operation in one dtype and mode.

    Attributes
    ----------
    operation, dtype, mode
        What ran.
    status
        ``"passed"``; ``"failed"`` where a bound is broken; ``"error"`` where it raised; ``"crashed"`` and ``"hung"``
        where its process died or was stopped; ``"unsupported"`` where the device has no such dtype.
    cases, elements
        How many calls were compared, and how many numbers.
    max_ulp, median_ulp
        The largest and the median distance from the exact values.
    limit
        The bound on `max_ulp`.
    measured
        The largest distance on a CPU when the bound was set.
    counts
        Elements in each bin of `BINS`.
    edges
        The edges that were tried.
    seconds
        How long it took, compilation included.
    failure
        The first wrong result.
    """

    operation: str
    dtype: str
    mode: Mode
    status: Status
    cases: int = 0
    elements: int = 0
    max_ulp: float = 0.0
    median_ulp: float = 0.0
    limit: float = 0.0
    measured: float = 0.0
    counts: tuple[int, ...] = ()
    edges: tuple[Edge, ...] = ()
    seconds: float = 0.0
    failure: Failure | None = None

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong; a dtype that the device lacks is not."""
        return self.status in ("passed", "unsupported")


@dataclass(frozen=True, slots=True)
class Summary:
    """One operation in one dtype over all modes.

    Attributes
    ----------
    max_ulp, median_ulp, limit, measured
        Over the modes but the gradient, whose numbers have bounds of their own.
    status
        The worst of the modes.
    failing
        The modes that are not good.
    """

    operation: str
    dtype: str
    status: Status
    max_ulp: float
    median_ulp: float
    limit: float
    measured: float
    counts: tuple[int, ...]
    failing: tuple[Mode, ...]


_WORST: tuple[Status, ...] = ("crashed", "hung", "error", "failed", "passed", "unsupported")


@dataclass(frozen=True, slots=True)
class Report:
    """The outcomes of a run, and where it ran.

    Attributes
    ----------
    device
        Name of the device.
    stack
        What was compared: ``"rtx_jax"`` or the name of a backend.
    versions
        Version by package.
    outcomes
        In the order of the table.
    seconds
        Of the whole run.
    """

    device: str
    stack: str
    versions: dict[str, str]
    outcomes: tuple[Outcome, ...]
    seconds: float = 0.0
    quick: bool = False

    @property
    def passed(self) -> bool:
        """Whether no bound is broken, nothing raised, crashed or hung, and something ran."""
        return any(o.status == "passed" for o in self.outcomes) and all(o.is_good for o in self.outcomes)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes that are not good."""
        return tuple(o for o in self.outcomes if not o.is_good)

    @property
    def operations(self) -> tuple[str, ...]:
        """The operations that ran, in order."""
        return tuple(dict.fromkeys(o.operation for o in self.outcomes))

    def __str__(self) -> str:
        wrong = self.failures
        verdict = "passed" if self.passed else f"{len(wrong)} of {len(self.outcomes)} outcomes are not right"
        lines = [f"Parity of {self.stack} on {self.device}: {verdict}"]
        for outcome in wrong:
            text = f"  {outcome.operation} {outcome.dtype} {outcome.mode}: {outcome.status}"
            lines.append(f"{text}: {outcome.failure.what}" if outcome.failure else text)
        return "\n".join(lines)

    def summaries(self) -> tuple[Summary, ...]:
        """Return one line for each operation and dtype."""
        groups: dict[tuple[str, str], list[Outcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault((outcome.operation, outcome.dtype), []).append(outcome)
        return tuple(_summary(group) for group in groups.values())

    def as_dict(self) -> dict[str, object]:
        """Return the report as what JSON can hold; infinities are strings."""
        return {
            "format": 1,
            "device": self.device,
            "stack": self.stack,
            "versions": self.versions,
            "quick": self.quick,
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "bins": list(BINS),
            "outcomes": [plain(outcome) for outcome in self.outcomes],
        }


def outcome_from(data: dict[str, object], /) -> Outcome:
    """Return the outcome that `Report.as_dict` wrote."""
    fields = dict(data)
    for name in ("max_ulp", "median_ulp", "limit", "measured", "seconds"):
        fields[name] = float(cast(float, fields[name]))
    for name in ("counts", "edges"):
        fields[name] = tuple(cast(Iterable[object], fields[name]))
    if fields["failure"] is not None:
        fields["failure"] = Failure(**cast(dict[str, str], fields["failure"]))  # type: ignore[arg-type]
    return Outcome(**fields)  # type: ignore[arg-type]


def plain(outcome: Outcome, /) -> object:
    """Return an outcome as what JSON can hold; infinities are strings."""
    return _plain(asdict(outcome))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return round(value, 4) if isinstance(value, float) else value


def _summary(group: list[Outcome]) -> Summary:
    values = [o for o in group if o.mode != "grad"] or group
    worst = min((o.status for o in group), key=_WORST.index)
    largest = max((o.max_ulp for o in values), default=0.0)
    counts = tuple(int(n) for n in np.sum([o.counts for o in values if o.counts] or [(0,) * (len(BINS) + 1)], axis=0))
    return Summary(
        group[0].operation,
        group[0].dtype,
        worst,
        largest,
        float(np.median([o.median_ulp for o in values])),
        max(o.limit for o in values),
        max(o.measured for o in values),
        counts,
        tuple(o.mode for o in group if not o.is_good),
    )


def histogram(errors: NDArray[np.float64], /) -> tuple[int, ...]:
    """Return how many of the distances lie in each bin of `BINS`, and above the last."""
    places = np.searchsorted(np.array(BINS), errors, side="left")
    return tuple(int(n) for n in np.bincount(places, minlength=len(BINS) + 1))
