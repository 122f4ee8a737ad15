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


@pytest.mark.parametrize("line, name", [
    ("FAILED tests/service/test_a.py::test_b", "tests/service/test_a.py::test_b"),
    ("FAILED tests/service/test_a.py::test_b[two in step]@test_a - AssertionError: [x] - y", "tests/service/test_a.py::test_b[two in step]"),
    ("ERROR tests/service/test_a.py::test_b[a-[1]] - assert 0", "tests/service/test_a.py::test_b[a-[1]]"),
    ("FAILED tests/service/test_a.py::TestA::test_b - assert a::b", "tests/service/test_a.py::TestA::test_b"),
    ("ERROR tests/service/test_a.py - ImportError: b::c", "tests/service/test_a.py")])
def test_pytest_says_what_failed(runner, line, name):
    found = runner("service").FAILED.match(line)
    assert found.group(2) == name
    assert found.group(1) == line.split(" ", 1)[1]


def ended(runner, name, failed, second, repeats=True):
    """A step with so many failures of ten tests, of which so many fail again."""
    step = runner("step").Step(name, None)
    step.count(10 - failed, failed, 0, [f"{name} {number}" for number in range(failed)])
    step.repeat = (lambda again: again.count(failed - second, second, 0)) if repeats else None
    return step


@pytest.mark.parametrize("steps, failed, unsteady", [
    ([("a", 1, 0)], 0, ["a 0"]), ([("a", 1, 0), ("b", 2, 0), ("c", 0, 0)], 0, ["a 0", "b 0", "b 1"]),
    ([("a", 1, 1)], 1, []), ([("a", 2, 1), ("b", 1, 0)], 2, ["b 0"]),
    ([("a", 2, 0), ("b", 2, 0)], 4, []), ([("a", 1, 0), ("b", 1, 0, False)], 2, [])])
def test_the_few_that_failed_are_tried_again(runner, tmp_path, monkeypatch, capsys, steps, failed, unsteady):
    """Many are not, and none where something else failed, too: it would change nothing."""
    monkeypatch.setattr(runner("step"), "LOGS", tmp_path)
    report = runner("report").Report()
    for words in steps:
        report.add(ended(runner, *words))
    runner("again").try_again(report)
    assert report.sums() == [10 * len(steps) - failed, failed, 0]
    assert [name for step in report.ended for name in step.unsteady] == unsteady
    assert report.close() == (1 if failed else 0)
    said = capsys.readouterr().out
    for name in unsteady:
        assert f"   {name[0]}: {name}\n" in said.partition("== failed, and passed when nothing else ran")[2]
