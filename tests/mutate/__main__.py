# SPDX-License-Identifier: MIT
"""Mutates the C sources of the product one place at a time and lists the mutations that no test notices.

A mutation is compiled and linked apart, in build/mutate; the tree and its build stay as they are. The tests that
run the changed line are run, the fastest first, until one fails. README.md has the rules.
"""

import argparse
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

sys.dont_write_bytecode = True  # `make dist` ships this folder whole

try:
    import clang.cindex  # noqa: F401  (Debian: python3-clang-14)
except ImportError:
    sys.exit(f"tests/mutate: {sys.executable} has no clang.cindex: `deploy/install mutate`, and Debian's /usr/bin/python3")

from build import Build, BuildError, copy_tree
from chooser import Chooser
from coverage import Coverage
from equivalent_list import EquivalentList
from judge import BROKEN, EQUIVALENT, Judge
from linked import Linked
from mutations import KINDS
from project import tombola
from results import REAL, Results

HERE = Path(__file__).resolve().parent


def options():
    parser = argparse.ArgumentParser(prog="tests/mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--count", type=int, default=54, metavar="N", help="real mutants, divided over the rooms (default 54: two a room)")
    add("--files", nargs="+", default=[], metavar="FILE", help="only these: a file, a folder, a pattern ('sampler/*/*.c')")
    add("--since", metavar="COMMIT", help="only lines that are new since then")
    add("--kinds", nargs="+", default=KINDS, choices=KINDS, metavar="KIND", help=f"only these: {' '.join(KINDS)}")
    add("--seed", default="1", help="draws the same mutations of the same sources (default 1)")
    add("--minutes", type=float, default=0, metavar="M", help="begin nothing after M minutes, and report (default: no limit)")
    add("--patience", type=float, default=60, metavar="S", help="begin no test of a mutant after S seconds (default 60)")
    add("-j", type=int, default=1, metavar="N", dest="workers", help="mutants (and, for the map of lines, tests) at a time (default 1)")
    add("--results", type=Path, metavar="FILE", help="where verdicts are kept (default build/mutate/results)")
    add("--resume", action="store_true", help="go on with the results that are there")
    add("--retry", action="store_true", help="try the survivors of the results again, and nothing else")
    add("--quick", action="store_true", help="no map of lines: the tests that are linked with the file, and those that its README names")
    add("--tests", nargs="+", default=[], metavar="TEST", help="with --quick: those alone whose names begin so (unit/ service/test_X.py fault/test_X.py)")
    add("--coverage", action="store_true", help="measure again which test runs which line")
    add("--list", action="store_true", help="print the mutations that would be tried, and try none")
    add("--self-test", action="store_true", help="find the known survivors of a small project")
    return parser.parse_args()


class Run:
    def __init__(self, project, choice, equivalents, work):
        self.project, self.choice, self.work = project, choice, work
        self.started = time.monotonic()
        self.equivalents = EquivalentList(equivalents)
        self.plain = Build(work / "tree", work / "plain", project.flags("-O2"))
        self.coverage = Linked(self.plain, choice.tests, work / "seconds.json") if choice.quick else Coverage(project, work / "coverage")

    def progress(self, text):
        print(f"{time.monotonic() - self.started:6.0f} s  {text}", flush=True)

    def prepare(self):
        """The copy of the tree, its builds, the map of lines."""
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "tree").mkdir(exist_ok=True)
        copy_tree(self.project.root, self.work / "tree")
        self.plain.make(self.progress)
        lines = self.project.lines_since(self.choice.since) if self.choice.since else None
        self.chooser = Chooser(self.plain, self.project.rooms, self.choice.files, self.choice.kinds, self.choice.seed, lines)
        if not self.chooser.rooms:
            sys.exit("tests/mutate: no such source in any room")

    def prepare_tests(self):
        if self.choice.coverage:
            self.coverage.forget()
        self.coverage.measure(self.progress, self.choice.workers)
        for name in self.coverage.broken():
            self.progress(f"fails without a mutation, and is left out: {name}")

    def judges(self):
        return [Judge(self.plain, self.coverage, self.equivalents.__contains__, self.work / f"worker-{i}", self.choice.patience)
                for i in range(self.choice.workers)]

    def is_over(self):
        return 0 < self.choice.minutes * 60 < time.monotonic() - self.started

    def real_one(self, judge, room):
        """Draws and judges mutations of a room until one is real."""
        while not self.is_over() and (drawn := self.chooser.draw(room)):
            mutation, source = drawn
            verdict = self.results.verdicts.get(mutation.name)
            if not verdict:
                verdict = judge.judge(mutation, source)
                self.note(verdict)
            if verdict.verdict not in (BROKEN, EQUIVALENT):
                return

    def note(self, verdict):
        self.results.add(verdict)
        if verdict.verdict in REAL:
            how = f"{verdict.verdict} {verdict.by}".strip()
            self.progress(f"{verdict.file}:{verdict.line} {verdict.kind}, {verdict.seconds} s: {how}")

    def again(self, judge, old):
        """A survivor of an earlier run; one whose text is gone does not count any more."""
        if self.is_over():
            return
        found = self.chooser.find(old.name, old.file)
        self.note(judge.judge(*found) if found else replace(old, verdict=BROKEN))

    def work_off(self, jobs, do):
        """do(judge, job) for each job; a worker keeps its judge."""
        free = self.judges()

        def one(job):
            judge = free.pop()
            try:
                do(judge, job)
            finally:
                free.append(judge)

        with ThreadPoolExecutor(len(free)) as pool:
            list(pool.map(one, jobs))

    def run(self):
        path = self.choice.results or self.work / "results"
        self.results = Results(path, self.choice.resume or self.choice.retry)
        if self.choice.retry:
            self.work_off(self.results.survivors(), self.again)
        else:
            rooms = self.chooser.rooms
            self.work_off([rooms[i % len(rooms)] for i in range(self.choice.count)], self.real_one)
        return self.results

    def report(self):
        text = f"tests/mutate at {self.project.commit()}, seed {self.choice.seed}, coverage of {self.coverage.commit}\n\n"
        text += self.results.report(self.project.rooms)
        for stale in self.equivalents.stale(self.project.root):
            text += f"stale in tests/mutate/equivalent: {stale}\n"
        for name, problem in self.chooser.unreadable().items():
            text += f"libclang does not read {name} wholly: {problem}\n"
        return text

    def list(self):
        rooms = self.chooser.rooms
        for i in range(self.choice.count):
            drawn = self.chooser.draw(rooms[i % len(rooms)])
            if drawn:
                mutation = drawn[0]
                print(f"{mutation.file}:{mutation.line} {mutation.function} ({mutation.kind})\n"
                      f"    - {mutation.before}\n    + {mutation.after}")


def main():
    choice = options()
    if choice.self_test:
        import self_test

        return self_test.run(Run)
    project = tombola()
    run = Run(project, choice, HERE / "equivalent", project.root / "build/mutate")
    try:
        run.prepare()
        if choice.list:
            run.list()
            return 0
        run.prepare_tests()
    except BuildError as problem:
        sys.exit(f"tests/mutate: {problem}")
    run.run()
    print(f"\n{run.report()}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
