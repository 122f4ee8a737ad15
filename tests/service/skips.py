# SPDX-License-Identifier: MIT
"""A skip is an exception: tests/skips lists those that a machine or a build can justify. Every other one fails its test,
and so does a test that runs although the list says that it cannot."""

import fnmatch
import functools
import os
import subprocess
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@functools.lru_cache(maxsize=None)
def listed(folder):
    """The lines that hold here: patterns of names, and reasons."""
    env = {**os.environ, "TOMBOLA_BUILD": os.environ.get("TOMBOLA_BUILD", str(TESTS.parent / "build"))}
    said = subprocess.run([TESTS / "skips", f"{folder}/"], env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line.split(" ", 1) for line in said.splitlines()]


def allowed(node):
    """The reason why it cannot run here, or None."""
    folder = node.path.parent.name
    name = f"{folder}/{node.path.name}::{node.name if isinstance(node, pytest.Item) else ''}"
    return next((reason for pattern, reason in listed(folder) if fnmatch.fnmatchcase(name, pattern)), None)


def judge(node, report, ran):
    reason = allowed(node)
    if report.skipped and reason is None and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which tests/skips does not allow here: {report.longrepr[-1]}"
    elif ran and report.passed and reason is not None:
        report.outcome = "failed"
        report.longrepr = f"it ran, but tests/skips says that it cannot here: {reason}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    judge(item, (yield).get_result(), call.when == "call")


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    outcome = yield
    if isinstance(collector, pytest.Module):
        judge(collector, outcome.get_result(), False)
