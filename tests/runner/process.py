# SPDX-License-Identifier: MIT
"""Child processes: each is the leader of a session of its own, its cost is known when it ends, and all that
any of them started, whatever became its parent or session, can be ended from here: they inherit a mark.

Threads: all functions may be called from any.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
import uuid

from places import ROOT

MARK = ("TESTS_RUN", uuid.uuid4().hex)  # a variable of the environment
GRACE_S = 40  # more than tests/limit gives what it runs

_lock = threading.Lock()
_running = set()  # pids
_ended = False


class Done:
    """How a process ended: status (-N: by signal N), wall and processor seconds, with its descendants'."""

    def __init__(self, status, wall_s, cpu_s):
        self.status, self.wall_s, self.cpu_s = status, wall_s, cpu_s


# Behind the sampler's own background threads (nice 10), so that no test starves. Where the kernel schedules sessions as
# groups, nice counts only within one, and a group has its own, which is kept higher: others may share the machine.
IN_BACKGROUND = ["sh", "-c", '{ echo 5 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"', "sh"]


def run(command, output, limit, env=None, cwd=None, background=False, pass_fds=()):
    """Runs a command to its end, its standard output and error to `output`, a file. Blocks. `limit`: seconds, and the
    name that is printed when they are over. `background`: it yields the processors to whoever else wants them."""
    started = time.monotonic()
    words = [*(IN_BACKGROUND if background else []), ROOT / "tests/limit", *map(str, limit), *map(str, command)]
    with _lock:
        if _ended:
            raise SystemExit  # the thread's: nothing may be started any more
        child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=cwd,
                                 env={**os.environ, **(env or {}), MARK[0]: MARK[1]}, start_new_session=True,
                                 pass_fds=pass_fds)
        _running.add(child.pid)
    _, status, usage = os.wait4(child.pid, 0)
    with _lock:
        _running.remove(child.pid)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Done(child.returncode, time.monotonic() - started, usage.ru_utime + usage.ru_stime)


def marked():
    """Every process that inherited the mark and still runs; a zombie has no environment."""
    found, mark = [], "=".join(MARK).encode()
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if mark in environ.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end_all():
    """Ends everything that was started: as Ctrl-C in a terminal would (tests/limit passes it on), then by SIGKILL."""
    global _ended
    with _lock:
        _ended = True
        signal_all(_running, signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    while (left := marked()) and time.monotonic() < deadline:
        time.sleep(0.05)
    while left:
        signal_all(left, signal.SIGKILL)
        time.sleep(0.05)
        left = marked()
