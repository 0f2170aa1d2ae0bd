"""Frequencies of rotary embedding and their scalings for longer contexts, on the host in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...checks.elementwise import scalar
from ...checks.parameters import positive, whole
from ...errors import InvalidArgument

__all__ = ["Frequencies", "LinearScaling", "Llama3Scaling", "Scaling", "YarnScaling", "rope_frequencies"]


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Angles per position of each pair of channels.

    Attributes
    ----------
    radians
        Of each pair, per position.
    factor
        Of the cosines and sines: 1 but for YaRN, which raises the temperature of attention by it.
    """

    radians: tuple[float, ...]
    factor: float = 1.0

    @property
    def channels(self) -> int:
        """How many channels turn."""
        return 2 * len(self.radians)

    def tables(self, positions: int | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return cosines and sines, float64 of shape (S, channels / 2), of positions or of 0 to ``positions - 1``."""
        at = np.arange(positions) if isinstance(positions, int) else np.asarray(positions)
        angles = at[..., None] * np.asarray(self.radians, np.float64)
        return np.cos(angles) * self.factor, np.sin(angles) * self.factor


@dataclass(frozen=True, slots=True)
class LinearScaling:
    """Positions divided by `factor` (Chen et al. 2023, position interpolation)."""

    factor: float


@dataclass(frozen=True, slots=True)
class Llama3Scaling:
    """Long wavelengths divided by `factor`, short ones kept, those between blended (Llama 3.1).

    Attributes
    ----------
    factor
        How much longer the context becomes.
    low_frequency, high_frequency
        Turns within `original_length` below which a frequency is divided, and above which it is kept.
    original_length
        Context that the model was trained with before.
    """

    factor: float = 8.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    original_length: int = 8192


@dataclass(frozen=True, slots=True)
class YarnScaling:
    """Interpolation by parts of the frequencies, and a factor of the attention (Peng et al. 2023, section 3).

    Attributes
    ----------
    factor
        How much longer the context becomes.
    original_length
        Context that the model was trained with before.
    beta_fast, beta_slow
        Turns within `original_length` from which on a frequency is kept, and up to which it is divided.
    attention_factor
        Of the cosines and sines; ``0.1 ln(factor) + 1`` when left out.
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None


Scaling = LinearScaling | Llama3Scaling | YarnScaling


def rope_frequencies(channels: int, /, *, base: float = 10000.0, scaling: Scaling | None = None) -> Frequencies:
    """Return the frequencies ``base**(-2 i / channels)``, scaled for a longer context.

    Parameters
    ----------
    channels
        How many channels turn; even.
    base
        Ratio of the longest to the shortest wavelength.
    scaling
        How the model was made to read further than it was trained.

    Raises
    ------
    InvalidArgument
        The channels are odd, the base or a parameter of the scaling is out of range, or the scaling is none.
    """
    width = whole("rope_frequencies", "channels", channels, 0)
    if width % 2:
        raise InvalidArgument(
            "rope_frequencies", "channels", got=width, wanted="an even number", arg="channels", reason="odd"
        )
    scale = positive("rope_frequencies", "base", base)
    plain = scale ** (-np.arange(0, width, 2) / max(width, 1))
    if scaling is None:
        return _made(plain)
    if not isinstance(scaling, Scaling):
        raise InvalidArgument(
            "rope_frequencies",
            "scaling",
            got=repr(scaling),
            wanted="LinearScaling, YarnScaling or Llama3Scaling",
            arg="scaling",
            reason="not a scaling",
        )
    factor = positive("rope_frequencies", "scaling.factor", scaling.factor)
    if isinstance(scaling, LinearScaling):
        return _made(plain / factor)
    length = whole("rope_frequencies", "scaling.original_length", scaling.original_length, 1)
    if isinstance(scaling, Llama3Scaling):
        low, high = _range("low_frequency", scaling.low_frequency, "high_frequency", scaling.high_frequency)
        turns = length * plain / (2 * math.pi)
        kept = np.clip((turns - low) / (high - low), 0, 1)
        return _made(plain * kept + plain / factor * (1 - kept))
    slow, fast = _range("beta_slow", scaling.beta_slow, "beta_fast", scaling.beta_fast)
    first, last = (_pair_of(turns, width, scale, length) for turns in (fast, slow))
    first, last = max(math.floor(first), 0), min(math.ceil(last), width - 1)
    divided = np.clip((np.arange(width // 2) - first) / (max(last - first, 0) or 0.001), 0, 1)
    attention = scaling.attention_factor
    if attention is None:
        attention = 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
    attention = scalar("rope_frequencies", "scaling.attention_factor", attention, finite=True)
    return _made(plain / factor * divided + plain * (1 - divided), attention)


def _pair_of(turns: float, width: int, base: float, length: int) -> float:
    """Return the pair of channels, as a fraction, that makes so many turns within a context."""
    if base == 1:
        return 0.0
    return width * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))


def _range(lower: str, low: float, upper: str, high: float) -> tuple[float, float]:
    found = (
        positive("rope_frequencies", f"scaling.{lower}", low),
        positive("rope_frequencies", f"scaling.{upper}", high),
    )
    if found[0] >= found[1]:
        raise InvalidArgument(
            "rope_frequencies",
            f"scaling.{lower}",
            got=f"{low}, with {upper}={high}",
            wanted=f"less than {upper}",
            arg="scaling",
            reason="empty range",
        )
    return found


def _made(radians: np.ndarray, factor: float = 1.0) -> Frequencies:
    return Frequencies(tuple(radians.tolist()), factor)
