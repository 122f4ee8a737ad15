# SPDX-License-Identifier: MIT
"""What each test costs: processor seconds, since wall time says little where tests run side by side. The costliest are
listed at the end, so that a run says what makes it slow; TOMBOLA_COSTS=N lists as many as that."""

import os
import resource

import pytest

LISTED = int(os.environ.get("TOMBOLA_COSTS") or 12)  # tests
NAME = "processor_s"
LIVING_S = {}  # who that still runs -> processor seconds of its descendants that have ended


def spent_s():
    """Processor seconds of this process, and of its descendants that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, programs = (each.ru_utime + each.ru_stime for each in used)
    return [own, programs + sum(LIVING_S.values())]


class Costs:
    """A plugin, in each worker and in what collects their reports. A fixture of several tests counts for its first."""

    def __init__(self):
        self.began_s, self.found = spent_s(), {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self):
        self.began_s = spent_s()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        if call.when == "teardown":  # its programs have ended
            item.user_properties.append((NAME, [now - then for now, then in zip(spent_s(), self.began_s)]))

    def pytest_runtest_logreport(self, report):
        self.found.update({report.nodeid: value for name, value in report.user_properties if name == NAME})

    def pytest_terminal_summary(self, terminalreporter):
        whole = [sum(spent[who] for spent in self.found.values()) for who in (0, 1)]
        terminalreporter.write_line(
            f"{sum(whole):.0f} processor seconds ({whole[0]:.0f} of Python) in {len(self.found)} tests, of which")
        for name, (own, programs) in sorted(self.found.items(), key=lambda item: -sum(item[1]))[:LISTED]:
            terminalreporter.write_line(f"{own + programs:6.1f} ({own:.1f} of Python) {name}")
