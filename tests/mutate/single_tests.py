# SPDX-License-Identifier: MIT
"""A plugin of pytest, so that single service tests can be measured and judged: says of each how it ended, how long it
took and which folders hold gcov's counts of it, as JSON in MUTATE_REPORT.

A program takes GCOV_PREFIX over when it starts, and writes its counts when it ends. What a fixture of a wider scope
starts counts for all tests that use that fixture.
"""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

REPORT = Path(os.environ["MUTATE_REPORT"])
COUNTS = os.environ.get("GCOV_PREFIX")
tests = {}  # node id -> what is reported of it
failed = set()  # node ids
folders = []  # a folder's name is its place here


@contextmanager
def counted_as(owner):
    """What starts meanwhile counts for `owner`."""
    before = os.environ.get("GCOV_PREFIX")
    if owner not in folders:
        folders.append(owner)
    if COUNTS:
        os.environ["GCOV_PREFIX"] = f"{COUNTS}/{folders.index(owner)}"
    yield
    if COUNTS:
        os.environ["GCOV_PREFIX"] = before


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    tests[item.nodeid] = {"seconds": 0, "failed": True}
    REPORT.write_text(json.dumps(tests))  # if it has no end
    with counted_as(item.nodeid):
        yield
    tests[item.nodeid]["failed"] = item.nodeid in failed
    tests[item.nodeid]["counts"] = [folders.index(one) for one in (item.nodeid, *item.fixturenames) if one in folders]


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef, request):
    owner = fixturedef.argname if fixturedef.scope != "function" else request.node.nodeid
    with counted_as(owner):
        yield


def pytest_runtest_logreport(report):
    tests[report.nodeid]["seconds"] += round(report.duration, 3)
    if report.failed:
        failed.add(report.nodeid)


def pytest_sessionfinish():
    REPORT.write_text(json.dumps(tests))
