# SPDX-License-Identifier: MIT
"""Unit tests of one build: `make check`, counted from what the TAP driver noted for each single test."""

import os
import re
import subprocess

import inputs
from kept import Kept, nothing_kept
from links import Links
from places import BUILD, IN_MEMORY, ROOT, shown
from selection import all_programs

RESULT = re.compile(r"^:test-result: (\w+)", re.MULTILINE)
GOOD, BAD = {"PASS", "XFAIL"}, {"FAIL", "ERROR", "XPASS"}
PASSES = re.compile(r"# begin |ok |PASS: |SKIP: ")

# For each program its tests that meet threads, as the plain build has noted (unit_threads.h).
NOTES = BUILD / "tests/threads"
# They compute for long under ThreadSanitizer, and start only the threads of frame_build, as test_frame_build does.
TSAN_SLOW = {f"tests/unit/test_{name}" for name in ("design_laws", "frame", "frame_file", "frame_view", "label_statistics")}


def clear(folder):
    for pattern in ("*.trs", "test_*.log", "fuzz_*.log"):
        for path in (folder / "tests").rglob(pattern):
            path.unlink()


def check_threads(step, build, names=None, keeps=False, noted=False):
    """Those programs of `names`, or of all, that are linked with what starts a thread: ThreadSanitizer has nothing to
    say of the others. `noted`: the plain build's have run, so only the tests that meet threads run of each."""
    names = names or all_programs()
    if build.make(step, "test-objects") != 0:
        step.broken("unit tests could not be built")
        return
    links = Links(build, names)
    names = [name for name in names if links.starts_threads(name) and name not in TSAN_SLOW]
    if noted:
        forget_old_notes(names)
    if names:
        check(step, build, names, keeps, NOTES if noted else None)
    else:
        step.count(0, 0, 0)


def forget_old_notes(names):
    """Those of programs that were made again and did not run: they have passed elsewhere."""
    for name in names:
        note, program = NOTES / name.rpartition("/")[2], BUILD / name
        if note.exists() and note.stat().st_mtime_ns < program.stat().st_mtime_ns:
            note.unlink()


def environment(build, notes):
    """Journals are synced thousands of times, on a disk for as long as all else takes: the files lie in memory. Those of
    tests/service and tests/fault lie on a disk."""
    skips = subprocess.run([ROOT / "tests/skips", "unit/"], stdout=subprocess.PIPE, text=True, check=False,
                           env={**os.environ, **IN_MEMORY, "TOMBOLA_BUILD": str(build.folder)})
    threads = {}
    if notes:
        notes.mkdir(exist_ok=True)
        threads = {"TOMBOLA_THREADS": str(notes)}
    return {**build.environment, **IN_MEMORY, **threads, "TOMBOLA_SKIPS": skips.stdout}


def make_check(step, build, names, tests, **more):
    """Makes the programs `names` and runs `tests` of them."""
    chosen = [f"check_PROGRAMS={' '.join(names)}", f"TESTS={' '.join(tests)}"]
    return build.make(step, "-k", "check", "test_objects=", *chosen, **more)


def counts(found):
    """(passed, failed, skipped) of results."""
    return sum(each in GOOD for each in found), sum(each in BAD for each in found), found.count("SKIP")


def check(step, build, names=None, keeps=False, notes=None):
    """Runs the programs `names` (tests/unit/test_X, tests/fuzz/fuzz_X), or all. `keeps`: not those that have passed.
    `notes`: the folder with those of unit_threads.h."""
    clear(build.folder)
    names, env, kept = names or all_programs(), environment(build, notes), nothing_kept()
    tests = names
    if keeps and make_check(step, build, names, []) == 0:
        kept = Kept(inputs.setting(build, "unit"), lambda programs: inputs.of_programs(build, programs))
        tests = kept.left(names)
    status = make_check(step, build, names, tests, env=env, prefix=build.prefix) if tests else 0
    noted = sorted((build.folder / "tests").rglob("*.trs"))
    results = [(path, RESULT.findall(path.read_text())) for path in noted]
    failed = [path.with_suffix(".log") for path, found in results if BAD.intersection(found)]
    for log in failed:
        step.say(f"failed: {shown(log)}")
        step.show_end(log, PASSES)
    counted = {path.relative_to(build.folder).with_suffix("").as_posix(): counts(found) for path, found in results}
    passed, bad, skipped = map(sum, zip((0, 0, 0), *counted.values()))
    if status != 0 and bad == 0:
        step.broken("unit tests could not be built")
    else:
        kept.add({test: each for test, each in counted.items() if test in kept.texts and any(each)})
        kept.count(step, passed, bad, skipped, map(shown, failed))
        programs = [log.relative_to(build.folder).with_suffix("").as_posix() for log in failed]
        step.repeat = lambda second: check(second, build, programs, notes=notes)
