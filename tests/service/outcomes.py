# SPDX-License-Identifier: MIT
"""How each test ended, as JSON for tests/runner/service.py, in the file that TOMBOLA_OUTCOMES names."""

import json


class Outcomes:
    """A plugin of the process that collects the workers' reports."""

    def __init__(self, config, path):
        self.config, self.path, self.found = config, path, {}

    def pytest_runtest_logreport(self, report):
        """A test that failed in any phase, or lost its worker, has failed."""
        name = self.config.cwd_relative_nodeid(report.nodeid)
        if report.failed:
            self.found[name] = "failed"
        elif report.skipped or report.when == "call":
            self.found.setdefault(name, report.outcome)

    def pytest_sessionfinish(self):
        self.path.write_text(json.dumps(self.found))
