# SPDX-License-Identifier: MIT
"""Checks options: one of the wrong type, or an impossible number, is an error that names it."""

from __future__ import annotations

import array
import math
import operator
import os
from collections.abc import Iterable
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


def counts(name: str, value: Any) -> tuple[int, ...]:
    """Of one or several integers, 0 or more."""
    return tuple(count(name, each) for each in (value if isinstance(value, Iterable) else (value,)))


def count_or_auto(name: str, value: Any) -> int:
    """Like count(); "auto" is -1."""
    if isinstance(value, str) and value != "auto":
        raise UsageError(f"{name} is {value!r}; give 'auto', or an integer, 0 or more")
    return -1 if value == "auto" else count(name, value)


def number(name: str, value: Any, *, positive: bool = False) -> float:
    """`value` as a finite float other than 0, or above 0 (None is the caller's)."""
    try:
        given = float(value)
    except (TypeError, ValueError):
        given = math.nan
    if not math.isfinite(given) or given == 0 or (positive and given < 0):
        wanted = "above 0, or None for no limit" if positive else "other than 0"
        raise UsageError(f"{name} is {value!r}; give a finite number {wanted}")
    return given


def single(name: str, value: Any) -> float:
    """Like number(), as a 32-bit float, which is finite and other than 0, too."""
    return number(name, array.array("f", [number(name, value)])[0])


def text(name: str, value: Any) -> str | None:
    """A str, or None."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"{name} is {value!r:.80}; give a str, or None")
    return value


def path(name: str, value: Any) -> bytes | None:
    """A path or URI as its bytes, which may not be UTF-8; or None."""
    try:
        return None if value is None else os.fsdecode(value).encode(errors="surrogateescape")
    except TypeError:
        raise UsageError(f"{name} is {value!r:.80}; give a path") from None
