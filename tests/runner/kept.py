# SPDX-License-Identifier: MIT
"""Tests that passed before with all their inputs as they are now: they do not run again, their counts of then count."""

import json

import inputs
from passed import Passed

KEEP_S = 2 * 86400  # what passed counts on its day only


class Kept:
    """Of the tests of a step. `found`: test -> (passed, skipped), of those that need not run."""

    def __init__(self, setting, read):
        """`setting`: a text that holds for all of them; `read`: tests -> {test: bytes}, their inputs as they are now."""
        self.passed = Passed("tests", setting, keep_s=KEEP_S)
        self.read = lambda tests: {test: test.encode() + b"\0" + text for test, text in read(tests).items()}
        self.texts, self.found = {}, {}

    def left(self, tests):
        """Those of `tests` that have to run."""
        self.texts = self.read(tests)
        notes = {test: self.passed.note(text) for test, text in self.texts.items()}
        self.found = {test: json.loads(note) for test, note in notes.items() if note}
        return [test for test in tests if test not in self.found]

    def add(self, counted):
        """{test: (passed, failed, skipped)} of those that ran. One that failed is forgotten, and so is one with an input
        that changed meanwhile."""
        now = self.read(list(counted))
        for test, (passed, failed, skipped) in counted.items():
            if not failed and now[test] == self.texts[test]:
                self.passed.add(now[test], json.dumps([passed, skipped]))
        self.passed.forget_old()

    def count(self, step, passed=0, failed=0, skipped=0, names=()):
        """The step's counts: those of the tests that ran, and of the others."""
        before = [sum(each) for each in zip((0, 0), *self.found.values())]
        step.kept = sum(before)
        step.count(passed + before[0], failed, skipped + before[1], names)


def nothing_kept():
    """For a step whose tests all run."""
    return Kept("", lambda tests: {})


def whole(check, build):
    """The work of a step that reads the whole tree: `check`, unless it passed with the same tree."""
    def work(step):
        kept = Kept(inputs.setting(build, "", step.name), lambda names: dict.fromkeys(names, inputs.of_tree()))
        if not kept.left([step.name]):
            kept.count(step)
            return
        check(step)
        if step.counts[0]:
            kept.add({step.name: step.counts})

    return work
