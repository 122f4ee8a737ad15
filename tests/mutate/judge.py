# SPDX-License-Identifier: MIT
"""What becomes of one mutation: built, and given to the tests that run its lines until one of them fails."""

import time
from dataclasses import asdict, dataclass

from build import Bench
from suite import run_test, sanitizer_options

SLACK_S = 20  # of the time limit of a test, for a machine that is busy
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

    passing = {}  # (build, test) -> whether it passes without a mutation; shared by all

    def __init__(self, builds, coverage, tests, listed, folder, patience):
        self.plain, self.asan = (build and Bench(build, folder / build.folder.name) for build in builds)
        self.coverage, self.tests, self.listed = coverage, tests, listed
        self.folder, self.patience = folder, patience

    def judge(self, mutation, source):
        """The verdict on a mutation of `source`, the bytes of its file."""
        text = mutation.apply(source)
        self.started = time.monotonic()
        found = Verdict(mutation.name, mutation.file.rpartition("/")[0], mutation.file, mutation.line, mutation.function,
                        mutation.kind, mutation.before, mutation.after, SURVIVED)
        equivalent = self.plain.is_equivalent(mutation.file, text)
        if equivalent is not False:
            found.verdict = EQUIVALENT if equivalent else BROKEN
        elif self.listed(mutation):
            found.verdict = LISTED
        else:
            self.run_tests(mutation, source, text, found)
        found.seconds = round(time.monotonic() - self.started, 1)
        return found

    def run_tests(self, mutation, source, text, found):
        first = source.count(b"\n", 0, mutation.span[0]) + 1
        last = source.count(b"\n", 0, mutation.span[1]) + 1
        names = self.coverage.tests_of(mutation.file, source.decode(), first, last)
        left = list(self.plan(mutation, [self.tests[name] for name in names if name in self.tests]))
        for bench in (self.plain, self.asan):
            own = [test for used, test in left if used is bench]
            if own and not found.by:
                self.run_on(bench, own, mutation, text, found)
        found.verdict = KILLED if found.by else SURVIVED

    def plan(self, mutation, tests):
        """Pairs of bench and test. Memory that is not freed is seen by the leak checker alone; reads and writes
        out of bounds often too, so that unit tests come again with it when nothing else failed."""
        units = [test for test in tests if not test.is_service]
        if mutation.kind == "release" and self.asan:
            return [(self.asan, test) for test in units or tests]
        again = [(self.asan, test) for test in units] if self.asan else []
        return [(self.plain, test) for test in tests] + again

    def run_on(self, bench, tests, mutation, text, found):
        build = bench.build
        if bench is self.asan and bench.compile(mutation.file, text) is None:
            return
        suffix = "" if bench is self.plain else " (ASan)"
        try:
            for number, test in enumerate(tests):
                if time.monotonic() - self.started > self.patience:
                    found.unrun += len(tests) - number
                    break
                programs = build.programs_with(mutation.file, test.programs(build))
                if not programs or not all([bench.link(program) for program in programs]):
                    continue
                found.by = self.failure(bench, test)
                found.ran += (test.name + suffix,)
                if found.by and self.passes_without(bench, test):
                    found.by += suffix
                    break
                found.by = ""
        finally:
            bench.restore()

    def passes_without(self, bench, test):
        """Whether the test passes in this build without a mutation: its first failure of a run is not believed."""
        if (bench.build, test) not in self.passing:
            bench.restore()
            self.passing[bench.build, test] = not self.failure(bench, test)
        return self.passing[bench.build, test]

    def failure(self, bench, test):
        """The test and how it failed, or ""."""
        noted = self.coverage.tests[test.name]
        limit = SLACK_S + 4 * noted["seconds"]
        options = sanitizer_options(bench.build.tree) if bench is self.asan else {}
        log = self.folder / "log"
        status, _ = run_test(test, bench.build.tree, bench.folder, log, limit, noted["without"], **options)
        if status is None:
            return f"{test.name}: no end after {limit:.0f} s"
        return "" if status in (0, 77) else f"{test.name}: exit {status}"
