# SPDX-License-Identifier: MIT
"""What becomes of one mutation: built, and given to the tests that run its lines until one of them fails."""

import time
from dataclasses import asdict, dataclass

from build import Bench
from suite import is_service, programs_of, run_program, run_service, sanitizer_options

SLACK_S = 20  # of the time limit of a test, for a machine that is busy
START_S = 2  # of pytest
LEAKS = ["-fsanitize=leak"]  # for the linker: the objects stay as they are
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

    passing = {}  # (build, whether leaks count, test) -> whether it passes without a mutation; shared by all

    def __init__(self, builds, coverage, listed, folder, patience):
        self.benches = [Bench(build, folder / build.folder.name) for build in builds]
        self.coverage, self.listed = coverage, listed
        self.log, self.patience = folder / "log", patience

    def judge(self, mutation, source):
        """The verdict on a mutation of `source`, the bytes of its file."""
        text = mutation.apply(source)
        self.started = time.monotonic()
        found = Verdict(mutation.name, mutation.file.rpartition("/")[0], mutation.file, mutation.line, mutation.function,
                        mutation.kind, mutation.before, mutation.after, SURVIVED)
        equivalent = self.benches[0].is_equivalent(mutation.file, text)
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
        for bench, own in self.plan(names):
            if own and not found.by:
                self.run_on(bench, own, found)
        found.verdict = KILLED if found.by else SURVIVED

    def plan(self, names):
        """Pairs of bench and tests. Memory that is not freed is seen by the leak checker alone; reads and writes
        out of bounds often by ASan, so that with --asan unit tests come again when nothing else failed."""
        plain, *asan = self.benches
        units = [name for name in names if not is_service(name)]
        if self.mutation.kind == "release":
            return [(plain, names)]
        return [(plain, names), *((bench, units) for bench in asan)]

    def run_on(self, bench, names, found):
        """In the order of `names`; all service tests in one step, where the first stands: pytest starts slowly."""
        bench.flags = LEAKS if self.mutation.kind in ("release", "call") else []
        if bench.compile(self.mutation.file, self.text) is None:
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
            elif not found.by and self.can_see(bench, what):
                run(bench, what, found)
        if found.by:
            found.by += {"plain": " (leak)" if bench.flags else ""}.get(bench.build.folder.name, " (ASan)")

    def can_see(self, bench, what):
        """Whether the programs of this test, or these, hold the mutation."""
        build = bench.build
        programs = build.programs_with(self.mutation.file, programs_of(what if isinstance(what, str) else what[0], build))
        return bool(programs) and all([bench.link(program) for program in programs])

    def left(self):
        return self.patience - (time.monotonic() - self.started)

    def run_program(self, bench, name, found):
        found.ran += (name,)
        by = self.failure(bench, name)
        if by and self.passes_without(bench, name, NO_END in by):
            found.by = by

    def failure(self, bench, name):
        """The test and how it failed, or ""."""
        limit = SLACK_S + 4 * self.coverage.seconds_of(name)
        if is_service(name):
            status, *_ = self.pytest(bench, [name])
            late = status is None or b" ran into its limit of " in self.log.read_bytes()
        else:
            status, _ = run_program(name, bench.build.tree, bench.folder, self.log, limit, **sanitizer_options(bench.build.tree))
            late = status is None
        if late:
            return f"{name}: {NO_END} after {limit:.0f} s"
        return "" if status in (0, 77) else f"{name}: exit {status}"

    def run_services(self, bench, names, found):
        """As many as there is time for, the fastest: a failure counts that comes twice, and not without the mutation."""
        left, chosen = self.left(), []
        for name in names:  # the fastest first
            left -= self.coverage.seconds_of(name)
            chosen += [name] if left > 0 or not chosen else []
        found.unrun += len(names) - len(chosen)
        chosen.sort(key=lambda name: name.partition("::")[0])  # fixtures of a file begin once
        while chosen and not found.by:
            status, _, tests = self.pytest(bench, chosen)
            found.ran += tuple(name for name in tests if name not in found.ran)
            failed = next((name for name, one in tests.items() if one["failed"]), None)
            if failed and (by := self.failure(bench, failed)) and self.passes_without(bench, failed, NO_END in by):
                found.by = by
            chosen = [name for name in chosen if name not in tests] if failed else []

    def pytest(self, bench, names):
        """As run_service(), until the first failure; each phase of a test has a limit of its own."""
        seconds = [self.coverage.seconds_of(name) for name in names]
        return run_service([name.partition("/")[2] for name in names], bench.build.tree, bench.folder, self.log,
                           START_S + 3 * SLACK_S + 4 * sum(seconds), all_of_it=False, TOMBOLA_TEST_LIMIT=SLACK_S + 4 * max(seconds),
                           **sanitizer_options(bench.build.tree))

    def passes_without(self, bench, name, now):
        """Whether the test passes in this build with the file as it is: its first failure of a run is not believed, nor
        a limit of a machine that is busy `now`."""
        key = bench.build, bool(bench.flags), name
        if now or key not in self.passing:
            bench.compile(self.mutation.file, self.source)
            self.passing[key] = self.can_see(bench, name) and not self.failure(bench, name)
            bench.compile(self.mutation.file, self.text)
            self.can_see(bench, name)
        return self.passing[key]
