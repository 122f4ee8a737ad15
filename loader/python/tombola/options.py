# SPDX-License-Identifier: MIT
"""Checks numeric options: an invalid or impossible number is an error that names the option."""

from __future__ import annotations

import math
import operator
from typing import Any

from tombola.errors import UsageError


def count(name: str, value: Any, least: int = 0) -> int:
    """`value` as a 64-bit integer of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        number = -1
    if not least <= number < 2**63:
        raise UsageError(f"{name} is {value!r}; give an integer, {least} or more")
    return number


def count_or_auto(name: str, value: Any) -> int:
    """Like count(); "auto" is -1."""
    if isinstance(value, str) and value != "auto":
        raise UsageError(f"{name} is {value!r}; give 'auto', or an integer, 0 or more")
    return -1 if value == "auto" else count(name, value)


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """`value` as a finite float other than 0, or above 0."""
    try:
        given = float(value)
    except (TypeError, ValueError):
        given = math.nan
    if not math.isfinite(given) or given == 0 or (positive and given < 0):
        raise UsageError(f"{name} is {value!r}; give a finite number {'above' if positive else 'other than'} 0")
    return given
