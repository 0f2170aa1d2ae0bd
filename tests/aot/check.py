"""What is asked of every compiled program."""

from __future__ import annotations

from tests.aot.programs import Case
from tests.aot.targets import AbsentDevice, Program

__all__ = ["fault_of"]


def fault_of(case: Case, device: AbsentDevice) -> tuple[Program | None, str]:
    """Compile or lower one program; return it, and what is wrong with it or an empty text."""
    try:
        work = device.lower if device.topology is None else device.compile
        program = work(case.function, *case.avals)
    except Exception as error:  # whatever a compiler raises is the result here
        return None, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
    if case.kernel is None and any(_is_kernel(name) for name in program.kernels):
        return program, f"has a kernel: {', '.join(program.kernels)}"
    if case.kernel is not None and not any(name.startswith(case.kernel) for name in program.kernels):
        return program, f"has no {case.kernel}: {', '.join(program.kernels) or 'no custom call'}"
    # XLA tells of its own kernels, and of Triton's, only that they spill.
    if program.spills and not 0 < program.spilled_bytes <= case.spilled_bytes:
        return program, f"spills registers ({program.spilled_bytes or 'unknown'} bytes)"
    if program.temp_bytes is not None and program.temp_bytes > case.temp_bytes:
        return program, f"takes {program.temp_bytes / 2**20:.1f} MiB, may take {case.temp_bytes / 2**20:.1f}"
    return program, ""


def _is_kernel(name: str) -> bool:
    """Whether a custom call is a kernel of ours; XLA itself calls libraries for products and sorts."""
    return name == "tpu_custom_call" or name.startswith(("mosaic_gpu", "__gpu$xla.gpu.triton", "__cudnn$fmha"))
