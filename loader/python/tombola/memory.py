# SPDX-License-Identifier: MIT
"""How much memory a cache may take."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 1 << 30
_UNLIMITED = 1 << 62
_GROUPS = {  # controllers in /proc/self/cgroup: where the limit and what is used stand, of version 2 and 1
    "": ("/sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # also "max"
        return None


def _free_of_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return _UNLIMITED


def _free_of_groups() -> int:
    """What the control group of this process, and those above it, leave."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return _UNLIMITED
    left = _UNLIMITED
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers not in _GROUPS:
            continue
        root, limit, used = _GROUPS[controllers]
        group = Path(root + name)
        for folder in (group, *group.parents):
            most, now = _number(folder / limit), _number(folder / used)
            if most is not None and now is not None:
                left = min(left, max(0, most - now))
            if folder == Path(root):
                break
    return left


def default_cache() -> int:
    """Half of what is free on the machine and in the control group, at most MOST_BYTES."""
    return min(_free_of_machine() // 2, _free_of_groups() // 2, MOST_BYTES)
