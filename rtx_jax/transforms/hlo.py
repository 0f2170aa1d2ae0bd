"""Optimized HLO as text, read: which kernels a program runs, what is fused in them, which operands are donated.

The text is XLA's own; its grammar is that of ``xla/hlo/parser``. Only what `inspection` asks is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Instruction", "Module", "bytes_of", "parse"]

# What runs no code of its own: values that are there, names for them, and the ends of what was started before.
FREE = frozenset(
    """parameter constant tuple get-tuple-element bitcast after-all add-dependency opt-barrier partition-id replica-id
    domain""".split()
)
# What runs other computations.
CALLING = frozenset(("call", "while", "conditional", "async-start"))
COLLECTIVES = frozenset(
    """all-reduce all-gather reduce-scatter all-to-all ragged-all-to-all collective-permute collective-broadcast send
    recv""".split()
)

_HEAD = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s.*\{\s*$")
_LINE = re.compile(r"^\s+(ROOT\s+)?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"\b([a-z][a-z0-9]*)\[([\d,<=? ]*)\]")
_TARGETS = re.compile(r"\b(calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_ALIAS = re.compile(r"\{([\d, ]*)\}: \((\d+), \{([\d, ]*)\}")
_BITS = {"pred": 8, "token": 0, "opaque": 0, "c64": 64, "c128": 128, "bf16": 16}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a computation.

    Attributes
    ----------
    name, opcode
        As XLA writes them.
    shape
        The shape of the result, a tuple in parentheses among them.
    rest
        The operands and attributes, as text.
    """

    name: str
    shape: str
    opcode: str
    rest: str

    def attribute(self, name: str) -> str:
        """Return the value of an attribute, ``""`` where it is absent."""
        found = re.search(rf'\b{name}="?([^",\s}}]+)', self.rest)
        return found[1] if found else ""

    @property
    def label(self) -> str:
        """What JAX calls it: the name of an argument, the path of an operation."""
        found = re.search(r'op_name="([^"]*)"', self.rest)
        return found[1] if found else ""

    @property
    def trips(self) -> int | None:
        """How often a loop runs, None where it is not known."""
        found = _TRIPS.search(self.rest)
        return int(found[1]) if found else None

    def result_bytes(self) -> int:
        """Return the size of what it writes; what starts a transfer names its operand and a context beside that."""
        parts = _parts(self.shape)
        if self.opcode == "copy-start":
            return bytes_of(parts[0])
        if self.opcode in ("all-gather-start", "collective-permute-start", "async-start") and len(parts) > 1:
            return bytes_of(parts[1])
        return bytes_of(self.shape)

    def targets(self) -> dict[str, list[str]]:
        """Return the computations that it names, by the role that they have."""
        found: dict[str, list[str]] = {}
        for role, target in _TARGETS.findall(self.rest):
            found.setdefault(role, []).append(target)
        branches = _BRANCHES.search(self.rest)
        if branches:
            found["branches"] = [name.strip().lstrip("%") for name in branches[1].split(",")]
        return found


@dataclass(frozen=True, slots=True)
class Module:
    """A program.

    Attributes
    ----------
    computations
        Their instructions by name.
    entry
        Name of the computation that runs.
    aliases
        ``(output, parameter)`` pairs of donated operands; the output is the path in the tuple of results.
    """

    computations: dict[str, list[Instruction]]
    entry: str
    aliases: tuple[tuple[str, int], ...]

    def parameters(self) -> dict[int, Instruction]:
        """Return the operands of the program by their number."""
        found = {}
        for instruction in self.computations[self.entry]:
            if instruction.opcode == "parameter":
                found[int(instruction.rest.partition(")")[0])] = instruction
        return found

    def running(self) -> Iterator[tuple[Instruction, int | None]]:
        """Yield what the program runs, and how often, which is None where the count of a loop is not known."""
        yield from self._running(self.entry, 1)

    def _running(self, name: str, runs: int | None) -> Iterator[tuple[Instruction, int | None]]:
        for instruction in self.computations.get(name, ()):
            opcode = instruction.opcode
            if opcode in FREE or opcode.endswith(("-done", "-update")):
                continue
            if opcode not in CALLING:
                yield instruction, runs
                continue
            inside = runs
            if opcode == "while":
                trips = instruction.trips
                inside = None if trips is None or runs is None else runs * trips
            for targets in instruction.targets().values():
                for target in targets:
                    yield from self._running(target, inside)

    def operations(self, instruction: Instruction) -> list[str]:
        """Return the opcodes of a kernel: all of a fusion, but for values that are there and their broadcasts."""
        if instruction.opcode != "fusion":
            return [instruction.opcode.removesuffix("-start")]
        found: list[str] = []
        for target in instruction.targets().get("calls", ()):
            inside = self.computations.get(target, ())
            scalars = {inner.name for inner in inside if inner.opcode == "constant"}
            for inner in inside:
                operand = inner.rest.partition(")")[0].rpartition(" ")[2].lstrip("%")
                if inner.opcode not in FREE and not (inner.opcode == "broadcast" and operand in scalars):
                    found += self.operations(inner)
        return found


def bytes_of(shape: str) -> int:
    """Return the bytes of all arrays in the text of a shape."""
    total = 0
    for dtype, sizes in _ARRAY.findall(shape):
        bits = _BITS.get(dtype)
        if bits is None:
            digits = re.match(r"[a-z]+(\d+)", dtype)
            bits = int(digits[1]) if digits else 0
        count = math.prod(int(size.lstrip("<=? ")) for size in sizes.split(",") if size.strip())
        total += (bits * count + 7) // 8
    return total


def parse(text: str) -> Module:
    """Read the text of a compiled program.

    Raises
    ------
    ValueError
        It is no HLO.
    """
    computations: dict[str, list[Instruction]] = {}
    entry, current = "", None
    aliases: tuple[tuple[str, int], ...] = ()
    for line in text.splitlines():
        if line.startswith("HloModule"):
            aliases = _aliases(line)
        elif current is None:
            head = _HEAD.match(line)
            if head:
                current = computations[head[2]] = []
                entry = head[2] if head[1] else entry
        elif line.startswith("}"):
            current = None
        else:
            found = _LINE.match(line)
            if found:
                current.append(_instruction(found[2], found[3]))
    if not entry:
        raise ValueError(f"no HLO: {text[:60]!r}")
    return Module(computations, entry, aliases)


def _aliases(line: str) -> tuple[tuple[str, int], ...]:
    start = line.find("input_output_alias={")
    if start < 0:
        return ()
    inner = line[start + len("input_output_alias=") : _closing(line, line.index("{", start))]
    return tuple([(output.strip(), int(parameter)) for output, parameter, _ in _ALIAS.findall(inner)])


def _instruction(name: str, text: str) -> Instruction:
    end = _closing(text, 0) if text.startswith("(") else text.find(" ")
    opcode, _, rest = text[end:].lstrip(") ").partition("(")
    return Instruction(name, text[: end + 1].strip(), opcode.strip(), rest)


def _parts(shape: str) -> list[str]:
    """Return the members of a tuple, or the one shape that it is."""
    if not shape.startswith("("):
        return [shape]
    parts, start, depth = [], 1, 0
    for i in range(1, len(shape) - 1):
        if shape[i] in "({[":
            depth += 1
        elif shape[i] in ")}]":
            depth -= 1
        elif shape[i] == "," and not depth:
            parts.append(shape[start:i].strip())
            start = i + 1
    return [*parts, shape[start:-1].strip()]


def _closing(text: str, start: int) -> int:
    """Return where the bracket at `start` closes."""
    depth = 0
    for i in range(start, len(text)):
        if text[i] in "({":
            depth += 1
        elif text[i] in ")}":
            depth -= 1
            if not depth:
                return i
    return len(text)
