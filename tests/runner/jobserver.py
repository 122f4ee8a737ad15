# SPDX-License-Identifier: MIT
"""One pool of processor slots for all that computes: GNU make's jobserver, shared by every make of a run.

A make uses one slot for itself and asks the pool for each further job, so that several makes at once
never start more than SLOTS processes. Whoever else computes takes a slot with `slot()`.
"""

import contextlib
import fcntl
import os
import select

from places import JOBS

SLOTS = JOBS + 1  # linkers wait for the disk, and unit tests for what they test


class Jobserver:
    def __init__(self, slots=SLOTS):
        self.read_end, self.write_end = map(raised, os.pipe())
        os.write(self.write_end, b"+" * slots)

    @contextlib.contextmanager
    def slot(self):
        """Blocks until a slot is free; it is given back at the end of the block."""
        token = self.take()
        try:
            yield
        finally:
            os.write(self.write_end, token)

    def take(self):
        """A make may let reads of the pipe fail when it is empty, for all that share it."""
        while True:
            select.select([self.read_end], [], [])
            with contextlib.suppress(BlockingIOError):
                return os.read(self.read_end, 1)

    def make_environment(self):
        """What a make that was given a slot needs to find the pool; pass_fds() must reach it, too."""
        return {"MAKEFLAGS": f" -j{SLOTS} --jobserver-auth={self.read_end},{self.write_end}"}

    def pass_fds(self):
        return (self.read_end, self.write_end)


def raised(end):
    """Shells on the way to a make use low descriptors for themselves."""
    high = fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100)
    os.close(end)
    return high


POOL = Jobserver()
