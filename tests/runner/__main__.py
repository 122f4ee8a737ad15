# SPDX-License-Identifier: MIT
"""tests/run, once Python is there. usage.txt says what it can do."""

import contextlib
import os
import signal
import subprocess
import sys

import builds
import inputs
import parts
import process
import record
import shipped
from again import try_again
from changed import take_changes
from links import Links
from places import BUILD, LONG, ROOT, shown
from report import Report
from schedule import Schedule
from selection import BadUsage, Selection, all_programs

SUPPRESSIONS = ROOT / "tests/sanitizers"
# No detect_stack_use_after_return: GCC 12 misaligns vectors of 64 bytes on the stack that ASan puts aside
# for it (GCC bug 110027), and their aligned stores fault. No intercept_tls_get_addr: LeakSanitizer takes
# what lies before a library's thread-local block for a header of old glibc where that block begins 16 bytes
# into a page, and dies of SIGSEGV in its scan, in one run of a thousand.
SANITIZERS = {
    "ASAN_OPTIONS": "allocator_may_return_null=1:detect_stack_use_after_return=0:intercept_tls_get_addr=0",
    "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS}/lsan.supp:print_suppressions=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": f"suppressions={SUPPRESSIONS}/tsan.supp:print_suppressions=0:second_deadlock_stack=1:"
                    "allocator_may_return_null=1",
}


# Also when the terminal is closed, since what runs has sessions of its own; but for nohup.
ENDING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL else [])]


class Stopped(Exception):
    """By a signal."""


def on_signal(number, _):
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise Stopped(number)


def give_up(reason):
    """Nothing can be tested: that is one failure."""
    print(f"run: {reason}; nothing was tested", file=sys.stderr)
    print("0 passed, 1 failed, 0 skipped")
    return 1


def install(chosen):
    """deploy/install stops when it can: dpkg is not to be interrupted in the middle of a package."""
    real = LONG if chosen.is_empty else not shipped.SCRIPTS.keys().isdisjoint(chosen.parts)
    sets = ["build", "run", "test", "bench", *(["page"] if LONG else []), *(["package", "engine"] if real else [])]
    child = subprocess.Popen([ROOT / "deploy/install", *sets])
    try:
        return child.wait()
    except Stopped as stopped:
        child.send_signal(stopped.args[0])
        child.wait()
        raise


def perform(steps, report, is_recorded=False):
    """Runs steps and the builds that they need. False: the programs do not compile, nothing can be tested.
    `is_recorded`: what each part found goes into tests/README.md as soon as it ends."""
    needed = {"autoreconf", *(name for step in steps for name in step.needs)} - {step.name for step in report.ended}
    schedule = Schedule([step for step in builds.steps() if step.name in needed] + steps, report.ended)
    while step := schedule.next_done():
        report.add(step)
        if is_recorded and step.counts:
            record.write_long(step.name, step.counts, step.wall_s, step.cpu_s)
        if step.failure and not step.counts:
            if step.name not in builds.SANITIZED:
                process.end_all()
                return False
    return True


def run(chosen, is_changed):
    report = Report()
    if chosen.folders or is_changed:
        if not perform([builds.objects_step()], report):
            return give_up("the build failed")
        links = Links(builds.PLAIN, all_programs())
        chosen.take_folders(links)
        if is_changed:
            print(f"== {take_changes(chosen, links, parts.WHOLE)}: {', '.join(chosen.parts)}")
    is_whole = chosen.is_empty and not is_changed
    if is_whole:
        chosen.take_all(parts.WHOLE)
    if not perform(parts.steps(chosen), report, LONG and chosen.is_of_whole_parts and not is_changed):
        return give_up("the build failed")
    try_again(report)
    if is_whole and LONG:
        record.write_long("all", report.sums(), report.wall_s, report.cpu_s)
    return report.close()


def main(arguments):
    options = [argument for argument in arguments if argument.startswith("-")]
    for option in options:
        if option not in ("--long", "--changed", "--fresh"):
            raise BadUsage(f"unknown option {option}")
    chosen = Selection([argument for argument in arguments if not argument.startswith("-")], parts.NAMES)
    os.environ.update(SANITIZERS)
    record.where_and_when()
    if install(chosen) != 0:
        return give_up("the packages are not all there")
    lock = builds.claim()
    if not lock:
        return give_up(f"another tests/run is at work in {shown(BUILD)}")
    chosen.keeps = chosen.may_keep(options, LONG) and inputs.tree() != []
    return run(chosen, "--changed" in options)


if __name__ == "__main__":
    for each in ENDING:
        signal.signal(each, on_signal)
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
    except BadUsage as problem:
        print(f"run: {problem} (--help says how)", file=sys.stderr)
        status = 2
    except (Stopped, BrokenPipeError) as ended:  # what only a `tail` was to read is for nobody when that has ended
        process.end_all()
        with contextlib.suppress(OSError):
            print("run: stopped", file=sys.stderr)
        status = 128 + (ended.args[0] if isinstance(ended, Stopped) else signal.SIGPIPE)
    os._exit(status)  # threads of steps that were stopped may still wait
