"""The report as one HTML page that stands alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from .results import BINS, Outcome, Report, Summary

__all__ = ["write_html"]

_ORDER = ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float8_e4m3fn float8_e5m2 float16 bfloat16 float32 "
          "float64 complex64 complex128").split()  # fmt: skip
_SHORT = {"bool": "bool", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "bfloat16": "bf16"}
_COLOURS = ((0.0, "#e8f3ec"), (0.25, "#c6e3d0"), (0.5, "#93c9a7"), (0.75, "#f2d48a"), (1.0, "#eaa94f"))
_BAD, _NONE = "#c8352f", "#ffffff"
_CELL_W, _CELL_H, _LEFT, _TOP = 46, 15, 190, 34

_STYLE = """
body{font:14px/1.5 system-ui,sans-serif;color:#1d2733;max-width:1180px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .5rem}
.sub{color:#5b6875;margin:.2rem 0 1rem}.good{color:#1c7a44}.bad{color:#c8352f}
.cards{display:flex;gap:1rem;flex-wrap:wrap}.card{border:1px solid #d9dfe5;border-radius:8px;padding:.6rem 1rem}
.card b{display:block;font-size:1.3rem}table{border-collapse:collapse;font-size:13px}
td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #edf0f3}
td:first-child,th:first-child{text-align:left}
pre{background:#f5f7f9;border-radius:6px;padding:.6rem .8rem;overflow-x:auto;font-size:12.5px}
details{margin:.4rem 0}summary{cursor:pointer}svg text{font:11px system-ui,sans-serif;fill:#1d2733}
"""


def write_html(report: Report, path: str | Path, /) -> None:
    """Write the page: what is wrong, the heat map of operation by dtype, the histograms and the table.

    Parameters
    ----------
    report
        From `run` or `check`.
    path
        The file; it needs nothing else to be shown.
    """
    Path(path).write_text(page(report), encoding="utf-8")


def page(report: Report, /) -> str:
    """Return the text of the page."""
    summaries = report.summaries()
    good = report.passed
    head = "Every bound is kept" if good else f"{len(report.failures)} outcomes are not right"
    versions = ", ".join(f"{name} {number}" for name, number in report.versions.items())
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Parity of {escape(report.device)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>Parity of {escape(report.stack)} on {escape(report.device)}</h1>",
        f"<p class='sub'>{escape(versions)}; {report.seconds:.0f} s{', quick' if report.quick else ''}</p>",
        f"<p class='{'good' if good else 'bad'}'><b>{head}</b></p>",
        _cards(report),
        _failures(report.failures),
        "<h2>Largest distance from the exact value, as a part of the bound</h2>",
        _legend(),
        heat_map(summaries),
        "<h2>How far results are from the exact value</h2>",
        _histograms(report.outcomes),
        "<h2>Operations</h2>",
        _table(summaries),
        "</body></html>",
    ]
    return "\n".join(parts)


def _cards(report: Report) -> str:
    numbers = sum(outcome.elements for outcome in report.outcomes)
    facts = (
        (f"{len(report.operations)}", "operations"),
        (f"{len(report.outcomes):,}", "outcomes"),
        (f"{numbers:,}", "numbers compared"),
        (f"{len(report.failures)}", "not right"),
    )
    return f"<div class='cards'>{''.join(f'<div class=card><b>{n}</b>{what}</div>' for n, what in facts)}</div>"


def _failures(failures: Sequence[Outcome]) -> str:
    if not failures:
        return ""
    rows = []
    for outcome in failures:
        found = outcome.failure
        head = f"<b>{escape(outcome.operation)}</b> {outcome.dtype} {outcome.mode}: "
        head += f"<span class='bad'>{outcome.status}</span>"
        text = f", {escape(found.edge)}: {escape(found.what)}" if found else ""
        code = f"<pre>{escape(found.code)}</pre>" if found else ""
        rows.append(f"<details><summary>{head}{text}</summary>{code}</details>")
    return f"<h2>What is not right</h2>{''.join(rows)}"


def _columns(summaries: Iterable[Summary]) -> list[str]:
    present = {summary.dtype for summary in summaries}
    return [*(name for name in _ORDER if name in present), *sorted(present - set(_ORDER))]


def _short(dtype: str) -> str:
    return _SHORT.get(dtype) or dtype.replace("complex", "c").replace("float", "f").replace("int", "i")


def heat_map(summaries: Sequence[Summary], /) -> str:
    """Return the SVG with a row for each operation and a column for each dtype."""
    columns = _columns(summaries)
    rows = list(dict.fromkeys(summary.operation for summary in summaries))
    width, height = _LEFT + _CELL_W * len(columns) + 10, _TOP + _CELL_H * len(rows) + 10
    parts = [f"<svg role='img' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>"]
    for i, dtype in enumerate(columns):
        x = _LEFT + _CELL_W * i + _CELL_W / 2
        parts.append(f"<text x='{x:g}' y='{_TOP - 8}' text-anchor='middle'>{_short(dtype)}</text>")
    for j, name in enumerate(rows):
        y = _TOP + _CELL_H * j + _CELL_H - 4
        parts.append(f"<text x='{_LEFT - 8}' y='{y}' text-anchor='end'>{escape(name)}</text>")
    for summary in summaries:
        x = _LEFT + _CELL_W * columns.index(summary.dtype)
        y = _TOP + _CELL_H * rows.index(summary.operation)
        label = (
            f"{summary.operation} {summary.dtype}: {summary.status}, at most {_ulp(summary.max_ulp)} ULP, "
            f"median {_ulp(summary.median_ulp)}, bound {_ulp(summary.limit)}"
        )
        parts.append(
            f"<rect x='{x}' y='{y}' width='{_CELL_W - 1}' height='{_CELL_H - 1}' fill='{_colour(summary)}' "
            f"stroke='#e3e7eb'><title>{escape(label)}</title></rect>"
        )
        if summary.status != "unsupported":
            text = {"crashed": "crash", "hung": "hang", "error": "error"}.get(summary.status, _ulp(summary.max_ulp))
            white = " style='fill:#fff'" if _colour(summary) == _BAD else ""
            parts.append(f"<text x='{x + _CELL_W / 2 - 0.5:g}' y='{y + 11}' text-anchor='middle'{white}>{text}</text>")
    return "".join([*parts, "</svg>"])


def _colour(summary: Summary) -> str:
    if summary.status == "unsupported":
        return _NONE
    if summary.status != "passed":
        return _BAD
    part = summary.max_ulp / summary.limit if summary.limit else 0.0
    return [colour for start, colour in _COLOURS if part >= start][-1]


def _legend() -> str:
    steps = [(colour, f"from {start:.0%}") for start, colour in _COLOURS] + [
        (_BAD, "not right"),
        (_NONE, "no such dtype"),
    ]
    cells = []
    for i, (colour, text) in enumerate(steps):
        cells.append(
            f"<rect x='{110 * i}' y='2' width='14' height='14' fill='{colour}' stroke='#e3e7eb'/>"
            f"<text x='{110 * i + 20}' y='14'>{text}</text>"
        )
    return f"<svg width='{110 * len(steps)}' height='22'>{''.join(cells)}</svg>"


def _histograms(outcomes: Sequence[Outcome]) -> str:
    totals: dict[str, list[int]] = {}
    for outcome in outcomes:
        if outcome.counts and outcome.mode != "grad" and outcome.dtype.startswith(("float", "bfloat", "complex")):
            row = totals.setdefault(outcome.dtype, [0] * len(outcome.counts))
            totals[outcome.dtype] = [a + b for a, b in zip(row, outcome.counts, strict=True)]
    columns = [name for name in _ORDER if name in totals]
    return "".join(histogram_svg(_short(name), totals[name]) for name in columns)


def histogram_svg(title: str, counts: Sequence[int], /, *, width: int = 250, height: int = 130) -> str:
    """Return the SVG of one histogram; the heights are logarithmic, as most results are exact."""
    labels = ["0", *(f"≤{end:g}" for end in BINS[1:]), f">{BINS[-1]:g}"]
    step = (width - 20) / len(counts)
    top = max(1.0, *(math.log10(1 + n) for n in counts))
    parts = [f"<svg role='img' width='{width}' height='{height}'><text x='10' y='14'>{escape(title)}</text>"]
    for i, (count, label) in enumerate(zip(counts, labels, strict=True)):
        tall = (height - 50) * math.log10(1 + count) / top
        x, y = 10 + step * i, height - 20 - tall
        colour = _BAD if i == len(counts) - 1 else "#4f9d6c"
        parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{step - 2:.1f}' height='{tall:.1f}' fill='{colour}'>"
            f"<title>{count:,} numbers {label} ULP</title></rect>"
            f"<text x='{x + step / 2 - 1:.1f}' y='{height - 6}' text-anchor='middle'>{escape(label)}</text>"
        )
    return "".join([*parts, "</svg>"])


def _table(summaries: Sequence[Summary]) -> str:
    head = "<tr><th>operation<th>dtype<th>status<th>max ULP<th>median<th>bound<th>measured<th>distribution</tr>"
    rows = [
        f"<tr><td>{escape(s.operation)}<td>{s.dtype}<td class='{'good' if s.status == 'passed' else 'bad'}'>{s.status}"
        f"<td>{_ulp(s.max_ulp)}<td>{_ulp(s.median_ulp)}<td>{_ulp(s.limit)}<td>{_ulp(s.measured)}<td>{_spark(s.counts)}</tr>"
        for s in summaries
    ]
    return f"<table>{head}{''.join(rows)}</table>"


def _spark(counts: Sequence[int]) -> str:
    if not any(counts):
        return ""
    top = max(math.log10(1 + n) for n in counts)
    bars = "".join(
        f"<rect x='{7 * i}' y='{14 - 14 * math.log10(1 + n) / top:.1f}' width='6' "
        f"height='{14 * math.log10(1 + n) / top:.1f}' fill='#4f9d6c'/>"
        for i, n in enumerate(counts)
    )
    return f"<svg width='{7 * len(counts)}' height='14'>{bars}</svg>"


def _ulp(x: float) -> str:
    return "∞" if math.isinf(x) else f"{x:.3g}" if x < 1000 else f"{x:.0e}"
