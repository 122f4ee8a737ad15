# SPDX-License-Identifier: MIT
"""A step of a run: a build or a part. It has a log, counts, lines to be printed when it ends, and its cost.

A step's work is a function that is given the step; it runs commands by run(), make() and pytest's part, says what a
person must read by say(), and ends with count() or broken(). A step that counts nothing is a build.
"""

import threading
import time

import process
from jobserver import POOL
from places import LOGS, LONG, shown

LIMIT_S = (24 if LONG else 2) * 3600  # for a command that has no limit of its own
TAIL = 40  # lines of a log that are shown after a failure
WIDE = 500  # and no more of a line: an assertion may show an answer of megabytes


class Step:
    def __init__(self, name, work, needs=(), waits=False):
        """`needs`: names of steps that come first. `waits`: most of it is waiting, it runs beside what computes."""
        self.name, self.work, self.needs, self.waits = name, work, tuple(needs), waits
        self.log_path = LOGS / f"{name}.log"
        self.lines, self.counts, self.failure = [], None, None
        self.failed, self.unsteady = [], []  # names of tests
        self.kept = 0  # tests among the counts that passed before and did not run (kept.py)
        self.repeat = None  # the work of a second try of what failed
        self.wall_s = self.cpu_s = 0.0
        self.ended = False
        self._cpu = threading.Lock()

    # ---- what the work calls ---------------------------------------------------------------------

    def say(self, text):
        """A line, or several, for the person; printed when the step ends."""
        self.lines += text.splitlines()

    def count(self, passed, failed, skipped, names=()):
        """`names`: of what failed, shown once more at the end of the run."""
        self.counts = (passed, failed, skipped)
        self.failed = [name[:WIDE] for name in names]

    def fail(self, reason, log=None):
        """It could not be done at all; the end of its log says why."""
        self.failure = reason
        self.say(reason)
        self.show_end(log or self.log_path)
        self.say(f"the whole log: {shown(log or self.log_path)}")

    def broken(self, reason, log=None):
        """The same for what has counts: one failure."""
        self.fail(reason, log)
        self.count(0, 1, 0, [reason])

    def show_end(self, path, without=None, lines=TAIL):
        """`without`: a pattern of lines that say nothing."""
        if path.exists():
            said = path.read_text(errors="replace").splitlines()
            self.show([line for line in said if not (without and without.match(line))][-lines:])

    def show(self, lines):
        """What another program said."""
        self.lines += [f"| {line[:WIDE]}" for line in lines]

    def run(self, command, log=None, limit=None, **more):
        """Runs a command, its output at the end of the log; returns its exit status. `limit`: seconds and a name."""
        with open(log or self.log_path, "ab") as output:
            done = process.run(command, output, limit or (LIMIT_S, f"part {self.name}"), **more)
        with self._cpu:
            self.cpu_s += done.cpu_s
        return done.status

    def compute(self, command, **more):
        """The same with a processor slot and behind the tests that wait for something: for what only computes."""
        with POOL.slot():
            return self.run(command, background=True, **more)

    def make(self, folder, *arguments, env=None, prefix=()):
        """make, with as many jobs as there are free slots."""
        return self.compute([*prefix, "make", "-C", folder, *arguments], pass_fds=POOL.pass_fds(),
                            env={**(env or {}), **POOL.make_environment()})

    # ---- what the schedule calls -----------------------------------------------------------------

    def perform(self):
        self.log_path.write_bytes(b"")
        started = time.monotonic()
        try:
            self.work(self)
        finally:
            self.wall_s = time.monotonic() - started
