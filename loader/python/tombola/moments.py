# SPDX-License-Identifier: MIT
"""Mean and deviation from arguments, for libtombola."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING, SupportsFloat

from tombola.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    Moment = SupportsFloat | Iterable[SupportsFloat] | None


def _floats(name: str, moment: Moment, fallback: float) -> list[float]:
    if moment is None:
        return [fallback]
    try:
        if isinstance(moment, SupportsFloat) and getattr(moment, "ndim", 0) == 0:
            return [float(moment)]
        if not isinstance(moment, str | bytes):
            return [float(number) for number in moment]  # type: ignore[union-attr]
    except (TypeError, ValueError):
        pass
    raise UsageError(f"{name} is {moment!r:.80}; give a number, or one for each channel or feature")


def moments(mean: Moment, std: Moment) -> dict[str, array.array[float]]:
    """Makes both equally long: one number, or the default, applies to all channels."""
    if mean is None and std is None:
        return {}
    given = {"mean": _floats("mean", mean, 0.0), "deviation": _floats("std", std, 1.0)}
    count = max(map(len, given.values()))
    if any(len(numbers) not in (1, count) for numbers in given.values()):
        raise UsageError(f"mean has {len(given['mean'])} numbers, std {len(given['deviation'])}; give equally many, or one")
    return {name: array.array("f", numbers * (count // len(numbers))) for name, numbers in given.items()}
