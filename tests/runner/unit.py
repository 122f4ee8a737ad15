# SPDX-License-Identifier: MIT
"""Unit tests of one build: `make check`, counted from what the TAP driver noted for each single test."""

import os
import re
import subprocess

from links import Links
from places import IN_MEMORY, ROOT, shown
from selection import all_programs

RESULT = re.compile(r"^:test-result: (\w+)", re.MULTILINE)
GOOD, BAD = {"PASS", "XFAIL"}, {"FAIL", "ERROR", "XPASS"}

# They compute for long under ThreadSanitizer, and start only the threads of frame_build, as test_frame_build does, or
# none. Single tests of other programs are marked unit_alone (unit.h).
TSAN_SLOW = {f"tests/unit/test_{name}" for name in (
    "design_laws", "frame", "frame_file", "frame_view", "label_statistics", "ledger", "worker_table")}


def clear(folder):
    for pattern in ("*.trs", "test_*.log", "fuzz_*.log"):
        for path in (folder / "tests").rglob(pattern):
            path.unlink()


def check_threads(step, build, names=None):
    """Those programs of `names`, or of all, that are linked with what starts a thread: ThreadSanitizer has nothing to
    say of the others."""
    names = names or all_programs()
    if build.make(step, "test-objects") != 0:
        step.broken("unit tests could not be built")
        return
    links = Links(build, names)
    names = [name for name in names if links.starts_threads(name) and name not in TSAN_SLOW]
    if names:
        check(step, build, names)
    else:
        step.count(0, 0, 0)


def environment(build):
    """Journals are synced thousands of times, on a disk for as long as all else takes: the files lie in memory. Those of
    tests/service and tests/fault lie on a disk."""
    skips = subprocess.run([ROOT / "tests/skips", "unit/"], stdout=subprocess.PIPE, text=True, check=False,
                           env={**os.environ, **IN_MEMORY, "TOMBOLA_BUILD": str(build.folder)})
    return {**build.environment, **IN_MEMORY, "TOMBOLA_SKIPS": skips.stdout}


def check(step, build, names=None):
    """Runs the programs `names` (tests/unit/test_X, tests/fuzz/fuzz_X), or all."""
    clear(build.folder)
    chosen = ["test_objects=", f"check_PROGRAMS={' '.join(names)}", f"TESTS={' '.join(names)}"] if names else []
    status = build.make(step, "-k", "check", *chosen, env=environment(build), prefix=build.prefix)
    noted = sorted((build.folder / "tests").rglob("*.trs"))
    results = [(path, RESULT.findall(path.read_text())) for path in noted]
    failed = [path.with_suffix(".log") for path, found in results if BAD.intersection(found)]
    for log in failed:
        step.say(f"failed: {shown(log)}")
        step.show_end(log)
    found = [result for _, several in results for result in several]
    bad = sum(result in BAD for result in found)
    if status != 0 and bad == 0:
        step.broken("unit tests could not be built")
    else:
        step.count(sum(result in GOOD for result in found), bad, found.count("SKIP"), map(shown, failed))
        programs = [log.relative_to(build.folder).with_suffix("").as_posix() for log in failed]
        step.repeat = lambda second: check(second, build, programs)
