"""Every kernel, forward and backward, through its face, on every target that it is for."""

from __future__ import annotations

import pytest

from tests.aot.check import fault_of
from tests.aot.matrix import Row, table
from tests.aot.programs import PROGRAMS, Case
from tests.aot.targets import AbsentDevice

PAIRS = [pytest.param(case, device, id=f"{case.name}-{device.name}") for case in PROGRAMS for device in case.devices]


@pytest.mark.parametrize(("case", "device"), PAIRS)
def test_compiles(case: Case, device: AbsentDevice) -> None:
    if device.missing:
        pytest.skip(f"{device.name}: {device.missing}")
    _, fault = fault_of(case, device)
    assert not fault


def test_the_table() -> None:
    rows = [
        Row("attention", "xla", "forward", "H200", 3 << 19, 0, ""),
        Row("attention", "xla", "forward", "Metal", None, 0, ""),
        Row("attention", "cudnn", "forward", "H200", 0, 0, "spills registers"),
        Row("attention", "pallas_mosaic_gpu", "backward", "H200", 0, 36, ""),
    ]
    assert table(rows, ["H200", "Metal"]).splitlines() == [
        "| operation | implementation | direction | H200 | Metal |",
        "| --- | --- | --- | ---: | ---: |",
        "| attention | `xla` | forward | 1.50 | lowered |",
        "| attention | `cudnn` | forward | **spills registers** | - |",
        "| attention | `pallas_mosaic_gpu` | backward | 0.00 (spills 36 bytes) | - |",
    ]
