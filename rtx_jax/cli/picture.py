"""The picture of the demo: the projection in two components, the predictions, and the times."""

from __future__ import annotations

import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InvalidArgument
from .dataset import Dataset
from .workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .demo import Comparison

__all__ = ["check_writable", "draw", "write"]

_INK, _MUTED, _GRID = "#22262b", "#6b7280", "#e5e7eb"
_NUMPY, _OURS = "#9ca3af", "#2563eb"


def check_writable(path: Path) -> None:
    """Check, before any work, that a file can be made at `path`; nothing stays behind.

    Raises
    ------
    InvalidArgument
        `path` is a folder, or its folder does not exist or cannot be written.
    """
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "Is a folder", str(path))
        if path.exists() and not path.is_file():
            return
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise _unwritable(path, error) from error


def write(png: bytes, path: Path) -> None:
    """Write the picture whole or not at all: an earlier file at `path` stays until the new one is complete.

    Raises
    ------
    InvalidArgument
        The disk is full, or the folder cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(png)  # a device or pipe, which a file must not take the place of
            return
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(png)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InvalidArgument:
    return InvalidArgument(
        "rtx-jax demo",
        "--output",
        got=f"{path} ({error.strerror})",
        wanted="a file in a folder that can be written, with room on its disk",
        remedy="Choose another place with --output",
        arg="--output",
        reason=str(error),
    )


def draw(data: Dataset, workload: Workload, comparisons: Sequence[Comparison], *, namespace: str, where: str) -> bytes:
    """Draw what `workload` found and how long each step took.

    Returns
    -------
    bytes
        A PNG.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 5.4), dpi=120, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.15, 1.0, 1.0))
    title = f"scikit-learn on {namespace} ({where}): {data.name}\n"
    figure.suptitle(title, x=0.01, ha="left", fontsize=14, color=_INK, weight="bold")
    _projection(left, data, workload)
    if data.classes:
        _confusion(middle, data, workload)
    else:
        _quantity(middle, workload)
    _times(right, comparisons, namespace)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _finish(axes: Axes, title: str, subtitle: str) -> None:
    axes.set_title(title, loc="left", fontsize=12, color=_INK, pad=22, weight="bold")
    axes.text(0, 1.02, subtitle, transform=axes.transAxes, fontsize=9, color=_MUTED, va="bottom")
    axes.tick_params(colors=_MUTED, labelsize=8, length=0)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _projection(axes: Axes, data: Dataset, workload: Workload) -> None:
    import matplotlib

    points = workload.projection
    across = points[:, 0]
    up = points[:, 1] if points.shape[1] > 1 else np.zeros_like(across)
    axes.grid(color=_GRID, linewidth=0.8)
    by = "discriminants" if len(data.classes) > 2 else "principal components"
    if not data.classes:
        drawn = axes.scatter(across, up, c=workload.truth, cmap="viridis", s=18, alpha=0.85, linewidths=0)
        bar = axes.figure.colorbar(drawn, ax=axes, shrink=0.8, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(colors=_MUTED, labelsize=8, length=0)
    else:
        colours = matplotlib.colormaps["tab10" if len(data.classes) <= 10 else "turbo"]
        for number, name in enumerate(data.classes):
            chosen = workload.truth == number
            colour = colours(number) if len(data.classes) <= 10 else colours(number / (len(data.classes) - 1))
            axes.scatter(across[chosen], up[chosen], s=18, alpha=0.8, linewidths=0, color=colour, label=name)
            if len(data.classes) <= 20 and chosen.any():
                axes.annotate(
                    name,
                    (np.median(across[chosen]), np.median(up[chosen])),
                    ha="center",
                    va="center",
                    fontsize=10,
                    weight="bold",
                    color=_INK,
                    bbox={"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": colour, "alpha": 0.9},
                )
    axes.set_xlabel("first component", fontsize=9, color=_MUTED)
    axes.set_ylabel("second component", fontsize=9, color=_MUTED)
    _finish(axes, f"Test rows in two {by}", "one point a row, coloured by its true value")


def _confusion(axes: Axes, data: Dataset, workload: Workload) -> None:
    counts = workload.confusion
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(data.classes))
    if len(data.classes) <= 20:
        for i in places:
            for j in places:
                if counts[i, j]:
                    colour = "white" if shares[i, j] > 0.5 else _INK
                    axes.text(j, i, str(counts[i, j]), ha="center", va="center", fontsize=9, color=colour)
        long = max(len(name) for name in data.classes) > 3
        axes.set_xticks(places, data.classes, rotation=45 if long else 0, ha="right" if long else "center")
        axes.set_yticks(places, data.classes)
    axes.set_xlabel("predicted", fontsize=9, color=_MUTED)
    axes.set_ylabel("true", fontsize=9, color=_MUTED)
    right, all_rows = int(np.trace(counts)), int(counts.sum())
    _finish(axes, "Confusion matrix", f"linear discriminant analysis: {right} of {all_rows} test rows right")


def _quantity(axes: Axes, workload: Workload) -> None:
    truth, predicted = workload.truth, workload.predicted
    low, high = float(min(truth.min(), predicted.min())), float(max(truth.max(), predicted.max()))
    axes.grid(color=_GRID, linewidth=0.8)
    axes.plot((low, high), (low, high), color=_MUTED, linewidth=1, linestyle="--")
    axes.scatter(truth, predicted, s=18, alpha=0.7, linewidths=0, color=_OURS)
    axes.set_xlabel("true", fontsize=9, color=_MUTED)
    axes.set_ylabel("predicted", fontsize=9, color=_MUTED)
    _finish(axes, "Predictions", "ridge regression on the test rows; the dashed line is exact")


def _times(axes: Axes, comparisons: Sequence[Comparison], namespace: str) -> None:
    rows = np.arange(len(comparisons))
    numpy_ms = 1e3 * np.array([c.reference.steady_s for c in comparisons])
    ours_ms = 1e3 * np.array([c.tried.steady_s for c in comparisons])
    first_ms = 1e3 * np.array([c.tried.first_s for c in comparisons])
    axes.grid(axis="x", color=_GRID, linewidth=0.8)
    axes.hlines(rows, np.minimum(numpy_ms, ours_ms), np.maximum(first_ms, ours_ms), color=_GRID, linewidth=3, zorder=1)
    axes.scatter(numpy_ms, rows, s=70, color=_NUMPY, label="NumPy", zorder=3)
    axes.scatter(ours_ms, rows, s=70, color=_OURS, label=namespace, zorder=4)
    axes.scatter(
        first_ms,
        rows,
        s=55,
        facecolor="white",
        edgecolor=_OURS,
        linewidth=1.5,
        label=f"{namespace}, first call",
        zorder=2,
    )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(rows, [c.tried.step for c in comparisons])
    axes.set_ylim(len(comparisons) - 0.4, -0.9)
    axes.set_xlabel("milliseconds, logarithmic", fontsize=9, color=_MUTED)
    axes.legend(fontsize=8, frameon=False, loc="upper left", ncols=3, labelcolor=_INK, handletextpad=0.1, borderpad=0)
    axes.tick_params(which="minor", length=0)
    _finish(axes, "Time of each step", "the median after the first call, and the first call, which compiles")
