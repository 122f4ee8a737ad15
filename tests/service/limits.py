# SPDX-License-Identifier: MIT
"""Every phase of a test has a limit: where one runs into it, the test fails, the stacks of its threads and programs are
in its report, and what it left running is ended."""

import faulthandler
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

STACKS = Path(__file__).resolve().parents[1] / "stacks"
LIMIT_S = float(os.environ.get("TOMBOLA_TEST_LIMIT") or (14400 if os.environ.get("TOMBOLA_LONG") == "1" else 1200))
AGAIN_S = 60  # what catches everything is interrupted again


def descendants(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text(encoding="ascii").split()]
        except OSError:
            continue  # it has just ended
    return found + [one for child in found for one in descendants(child)]


def started(item):
    """What runs now and did not when the test began."""
    return [pid for pid in descendants(os.getpid()) if pid not in item.stash[BEFORE]]


BEFORE, OVERRAN = pytest.StashKey(), pytest.StashKey()


@contextmanager
def limited(item, phase):
    """Fails it in the main thread, where the test is, once the limit is over."""

    def ring(*_):
        if not item.stash[OVERRAN]:
            item.stash[OVERRAN] = True
            faulthandler.dump_traceback(sys.stderr)
            subprocess.run([STACKS, *map(str, started(item))], stdout=sys.stderr, check=False)
        pytest.fail(f"{item.nodeid} ran into its limit of {LIMIT_S:g} s, in its {phase}")

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S, AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    item.stash[BEFORE], item.stash[OVERRAN] = set(descendants(os.getpid())), False
    with limited(item, "setup"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    with limited(item, "call"):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    with limited(item, "teardown"):
        yield
    if item.stash[OVERRAN]:
        for pid in started(item):
            os.kill(pid, signal.SIGKILL)
