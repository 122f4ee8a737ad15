# SPDX-License-Identifier: MIT
"""Where things are: the tree, its builds, the logs, and what is kept between runs of different clones."""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
LOGS = BUILD / "test-logs"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tombola"  # safe to remove at any time
MEMORY_BYTES = 1 << 30  # that tests may need at a time; a container may have less
MEMORY = Path("/dev/shm")  # Linux's file system in memory
IN_MEMORY = {"TMPDIR": str(MEMORY)} if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES else {}
JOBS = len(os.sched_getaffinity(0))
if "--long" in sys.argv:
    os.environ["TOMBOLA_LONG"] = "1"  # the tests, too, read it there
LONG = os.environ.get("TOMBOLA_LONG") == "1"


def shown(path):
    """A path as a person in the tree's root writes it."""
    path = Path(path)
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)
