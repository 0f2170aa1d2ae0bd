"""From the options of a command to a request: an option that changes nothing is refused, not passed over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..bench import Request
from ..errors import InvalidArgument

__all__ = ["request_of"]


def request_of(
    command: str,
    operation: str,
    takes: Sequence[str],
    *,
    lengths: Sequence[int] | None,
    variants: Sequence[str] | None,
    directions: Sequence[str] | None,
    rounds: int,
    device: str | None,
    options: Mapping[str, object],
) -> Request:
    """Return the request of a command.

    Parameters
    ----------
    command
        Its name, for errors.
    operation
        What is measured.
    takes
        The fields of the request that the operation depends on.
    lengths, variants, directions, rounds, device
        What every operation has.
    options
        The other options by the field of the request; None, or False, where not given.

    Raises
    ------
    InvalidArgument
        An option is given that the operation does not depend on.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None and value is not False}
    for name, value in given.items():
        without = name == "window" in takes and "window" not in (variants or ())
        if name in takes and not without:
            continue
        raise InvalidArgument(
            command,
            _option(name),
            got="it" if value is True else value,
            wanted="--variant window with it" if without else f"no such option, which {operation} does not have",
            remedy="" if without else f"There is {', '.join(map(_option, takes))}.",
            arg=_option(name),
            reason="without effect",
        )
    return Request(operation, lengths or (), variants or (), directions or (), device=device, rounds=rounds, **given)


def _option(name: str) -> str:
    return "--implementation" if name == "implementations" else f"--{name.replace('_', '-')}"
