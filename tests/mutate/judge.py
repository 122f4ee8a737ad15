# SPDX-License-Identifier: MIT
"""What becomes of one mutation: built, and given to the tests that run its lines until one of them fails."""

import time
from dataclasses import asdict, dataclass

from build import Bench
from suite import is_service, programs_of, run_program, run_service, sanitizer_options

SLACK_S = 20  # of the time limit of a test, for a machine that is busy
START_S = 2  # of pytest
ASAN = ["-fsanitize=address"]  # of the mutated file alone and of the linker: other objects stay as they are
NO_END = "no end"
KILLED, SURVIVED, EQUIVALENT, LISTED, BROKEN = "killed", "survived", "equivalent", "listed", "broken"


@dataclass
class Verdict:
    name: str
    room: str
    file: str
    line: int
    function: str
    kind: str
    before: str
    after: str
    verdict: str
    by: str = ""  # the test that failed, and how
    seconds: float = 0  # until then
    ran: tuple = ()  # names of the tests that ran, in this order
    unrun: int = 0  # tests that run the line too, for which the time was over

    def note(self):
        return asdict(self)


class Judge:
    """One worker: its view of each build, used for one mutation after the other."""

    passing = {}  # (whether ASan looks, test) -> whether it passes without a mutation; shared by all

    def __init__(self, build, coverage, listed, folder, patience):
        self.build, self.bench = build, Bench(build, folder / build.folder.name)
        self.coverage, self.listed = coverage, listed
        self.log, self.patience = folder / "log", patience

    def judge(self, mutation, source):
        """The verdict on a mutation of `source`, the bytes of its file."""
        text = mutation.apply(source)
        self.started = time.monotonic()
        found = Verdict(mutation.name, mutation.file.rpartition("/")[0], mutation.file, mutation.line, mutation.function,
                        mutation.kind, mutation.before, mutation.after, SURVIVED)
        self.bench.flags = []
        equivalent = self.bench.is_equivalent(mutation.file, text)
        if equivalent is not False:
            found.verdict = EQUIVALENT if equivalent else BROKEN
        elif self.listed(mutation):
            found.verdict = LISTED
        else:
            self.mutation, self.source, self.text = mutation, source, text
            self.run_tests(found)
        found.seconds = round(time.monotonic() - self.started, 1)
        return found

    def run_tests(self, found):
        first = self.source.count(b"\n", 0, self.mutation.span[0]) + 1
        last = self.source.count(b"\n", 0, self.mutation.span[1]) + 1
        names = self.coverage.tests_of(self.mutation.file, self.source.decode(), first, last)
        for flags, own in self.plan(names):
            if own and not found.by:
                self.run_with(flags, own, found)
        found.verdict = KILLED if found.by else SURVIVED

    def plan(self, names):
        """Pairs of flags and tests. Memory that is not freed is seen by ASan alone; reads and writes out of bounds
        often too, so that unit tests come again with it when nothing else failed."""
        if self.mutation.kind in ("release", "call"):
            return [(ASAN, names)]
        return [([], names), (ASAN, [name for name in names if not is_service(name)])]

    def run_with(self, flags, names, found):
        """In the order of `names`; all service tests in one step, where the first stands: pytest starts slowly."""
        self.bench.flags = flags
        if self.bench.compile(self.mutation.file, self.text) is None:
            return
        services = [name for name in names if is_service(name)]
        steps = []
        for name in names:
            if not is_service(name):
                steps.append((name, self.run_program))
            elif name == services[0]:
                steps.append((services, self.run_services))
        for what, run in steps:
            if self.left() < 0:
                found.unrun += 1 if isinstance(what, str) else len(what)
            elif not found.by and self.can_see(what):
                run(what, found)
        found.by += " (ASan)" if found.by and flags else ""

    def can_see(self, what):
        """Whether the programs of this test, or these, hold the mutation."""
        wanted = programs_of(what if isinstance(what, str) else what[0], self.build)
        programs = self.build.programs_with(self.mutation.file, wanted)
        return bool(programs) and all([self.bench.link(program) for program in programs])

    def left(self):
        return self.patience - (time.monotonic() - self.started)

    def run_program(self, name, found):
        found.ran += (name,)
        by = self.failure(name)
        if by and self.passes_without(name, NO_END in by):
            found.by = by

    def failure(self, name):
        """The test and how it failed, or ""."""
        limit = SLACK_S + 4 * self.coverage.seconds_of(name)
        if is_service(name):
            status, *_ = self.pytest([name])
            late = status is None or b" ran into its limit of " in self.log.read_bytes()
        else:
            status, _ = run_program(name, self.build.tree, self.bench.folder, self.log, limit, **sanitizer_options(self.build.tree, self.bench.flags))
            late = status is None
        if late:
            return f"{name}: {NO_END} after {limit:.0f} s"
        return "" if status in (0, 77) else f"{name}: exit {status}"

    def run_services(self, names, found):
        """As many as there is time for, the fastest: a failure counts that comes twice, and not without the mutation."""
        left, chosen = self.left(), []
        for name in names:  # the fastest first
            left -= self.coverage.seconds_of(name)
            chosen += [name] if left > 0 or not chosen else []
        found.unrun += len(names) - len(chosen)
        chosen.sort(key=lambda name: name.partition("::")[0])  # fixtures of a file begin once
        while chosen and not found.by:
            status, _, tests = self.pytest(chosen)
            found.ran += tuple(name for name in tests if name not in found.ran)
            failed = next((name for name, one in tests.items() if one["failed"]), None)
            if failed and (by := self.failure(failed)) and self.passes_without(failed, NO_END in by):
                found.by = by
            chosen = [name for name in chosen if name not in tests] if failed else []

    def pytest(self, names):
        """As run_service(), until the first failure; each phase of a test has a limit of its own."""
        seconds = [self.coverage.seconds_of(name) for name in names]
        return run_service(names, self.build.tree, self.bench.folder, self.log,
                           START_S + 3 * SLACK_S + 4 * sum(seconds), all_of_it=False, TOMBOLA_TEST_LIMIT=SLACK_S + 4 * max(seconds),
                           **sanitizer_options(self.build.tree, self.bench.flags))

    def passes_without(self, name, now):
        """Whether the test passes in this build with the file as it is: its first failure of a run is not believed, nor
        a limit of a machine that is busy `now`."""
        key = bool(self.bench.flags), name
        if now or key not in self.passing:
            self.bench.compile(self.mutation.file, self.source)
            self.passing[key] = self.can_see(name) and not self.failure(name)
            self.bench.compile(self.mutation.file, self.text)
            self.can_see(name)
        return self.passing[key]
