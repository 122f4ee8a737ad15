# SPDX-License-Identifier: MIT
"""tests/runner: what a long run costs and records."""

import importlib
import sys

import pytest

from conftest import ROOT

pytestmark = pytest.mark.plain

README = """# tests
## The last long run
Not yet recorded.

## Branch coverage
90.0 % of 10 branches.
"""


@pytest.fixture
def runner(monkeypatch):
    """runner("record") -> that module of tests/runner."""
    monkeypatch.syspath_prepend(ROOT / "tests" / "runner")
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def record(runner, tmp_path, monkeypatch):
    """With a README of its own."""
    found = runner("record")
    monkeypatch.setattr(found, "README", tmp_path / "README.md")
    found.README.write_text(README)
    return found


def rows(record):
    return [line.split(" | ") for line in record.read("The last long run").splitlines()[2:]]


def test_each_part_of_a_long_run_has_a_row(record):
    record.write_long("unit", (2000, 0, 7), 90, 150)
    record.write_long("asan-unit", (1990, 1, 17), 240, 300)
    assert [row[0] for row in rows(record)] == ["| asan-unit", "| unit"]
    assert rows(record)[1][2:] == ["1.5", "2.5", str(record.JOBS), "2000", "0", "7 |"]
    assert record.README.read_text().startswith("# tests\n## The last long run\n| part |")
    assert record.read("Branch coverage") == "90.0 % of 10 branches."


def test_a_part_that_runs_again_has_its_new_row_only(record):
    for failed in (3, 0):
        record.write_long("fuzz", (23 - failed, failed, 0), 1800, 3600)
        record.write_long("all", (5, failed, 0), 5400, 7200)
    assert [row[0] for row in rows(record)] == ["| all", "| fuzz"]
    assert rows(record)[1][-2] == "0"


def test_a_record_names_the_commit_as_it_was_when_the_run_began(record, monkeypatch):
    said = {"status": "", "rev-parse": "abc1234"}
    monkeypatch.setattr(record, "git", lambda command, *_: said[command])
    record.where_and_when.cache_clear()
    assert record.where_and_when().endswith(", commit abc1234")
    said["status"] = " M common/json.c"
    assert record.where_and_when().endswith(", commit abc1234"), "what is changed while it runs was not tested"
    record.where_and_when.cache_clear()
    assert record.where_and_when().endswith(", commit abc1234-dirty")


@pytest.mark.parametrize("names, is_whole", [([], True), (["fuzz", "asan"], True), (["fuzz_uri"], False), (["asan", "test_json"], False),
                                             (["sampler/journal"], False)])
def test_only_whole_parts_are_recorded(runner, names, is_whole):
    chosen = runner("selection").Selection(names, runner("parts").NAMES)
    assert chosen.is_of_whole_parts is is_whole


def test_all_targets_share_the_time_for_fuzzing(runner):
    """Of a long run; else each has a second."""
    fuzz = runner("fuzz")
    for targets in (10, 25, 60):
        assert fuzz.seconds_each(targets, True) * targets <= fuzz.BUDGET_S * fuzz.JOBS
        assert fuzz.seconds_each(targets, False) == 1
    assert fuzz.seconds_each(1, True) == fuzz.MOST_S
