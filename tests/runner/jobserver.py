"""One pool of processor slots for all that computes: GNU make's jobserver, shared by every make of a run.

A make uses one slot for itself and asks the pool for each further job, so that several makes at once
never keep more than JOBS processes busy. Whoever else computes takes a slot with `slot()`.
"""

import contextlib
import fcntl
import os

from places import JOBS


class Jobserver:
    def __init__(self, slots=JOBS):
        # Shells on the way to a make use low descriptors for themselves.
        self.read_end, self.write_end = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in os.pipe())
        os.write(self.write_end, b"+" * slots)

    @contextlib.contextmanager
    def slot(self):
        """Blocks until a slot is free; it is given back at the end of the block."""
        token = os.read(self.read_end, 1)
        try:
            yield
        finally:
            os.write(self.write_end, token)

    def make_environment(self):
        """What a make that was given a slot needs to find the pool; pass_fds() must reach it, too."""
        return {"MAKEFLAGS": f" -j{JOBS} --jobserver-auth={self.read_end},{self.write_end}"}

    def pass_fds(self):
        return (self.read_end, self.write_end)


POOL = Jobserver()
