# SPDX-License-Identifier: MIT
"""tests/runner: what a long run costs and records; which tests need not run."""

import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from conftest import PATIENCE_S, ROOT, environment, wait_for
from marked import marked, new_mark
from outcomes import Outcomes

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


@pytest.mark.parametrize("path", ["deploy/tombola", "deploy/k8s/base/sampler.yaml", "deploy/README.md"])
def test_a_change_of_deploy_runs_what_uses_it(runner, path):
    """--changed, as `tests/run deploy`: the tests that the README names are all of them."""
    selection = runner("selection")
    chosen = selection.Selection([], runner("parts").NAMES)
    assert runner("changed").take_by_rule(chosen, path)
    users = [test for test in selection.all_tests("service") if re.search(r'ROOT / "deploy\b', (ROOT / test).read_text())]
    assert len(users) > 9 and set(users) - set(chosen.tests["service"]) == {"tests/service/test_runner.py"}
    assert chosen.tests["fault"] and {"lint", "layering", "service", "fault"} == set(chosen.parts)


def test_without_a_commit_to_compare_with_all_parts_run(runner, tmp_path, monkeypatch):
    """In a clone of one commit, or in a tarball, --changed found no difference, and passed."""
    changed = runner("changed")
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))  # it may lie in a clone

    def taken():
        chosen = runner("selection").Selection([], runner("parts").NAMES)
        said = changed.take_changes(chosen, None, ["unit", "lint"])
        return chosen.parts, said

    assert taken()[0] == ["unit", "lint"]
    commit = ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "--allow-empty", "-m", "x"]
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    subprocess.run(commit, cwd=tmp_path, check=True)
    assert taken()[0] == ["unit", "lint"]
    subprocess.run(commit, cwd=tmp_path, check=True)
    assert taken()[0] == [] and taken()[1].startswith("0 files differ from ")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_who_is_ended_ends_what_it_runs(tmp_path, number):
    """Also when its terminal is closed. The first that it runs is deploy/install."""
    (tmp_path / "tests").mkdir()
    for name in ("run", "runner", "layering"):
        (shutil.copytree if (ROOT / "tests" / name).is_dir() else shutil.copy)(ROOT / "tests" / name, tmp_path / "tests" / name)
    (tmp_path / "deploy").mkdir()
    install = tmp_path / "deploy" / "install"
    install.write_text(f"#!/bin/bash\ntrap 'touch {tmp_path}/heard; exit 1' HUP INT TERM\ntouch {tmp_path}/asked\nwhile sleep 0.1; do :; done\n")
    install.chmod(0o755)
    mark = new_mark()
    one = subprocess.Popen(["env", "--default-signal=HUP,INT", tmp_path / "tests" / "run"], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, env=environment(mark), start_new_session=True)
    try:
        wait_for((tmp_path / "asked").exists, "it installs nothing")
        one.send_signal(number)
        assert one.wait(PATIENCE_S) == 128 + number
        assert (tmp_path / "heard").exists() and not marked(mark)
    finally:
        for pid in marked(mark):
            os.kill(pid, signal.SIGKILL)
        one.wait()


def ended_command(step, said, status):
    """In place of step.run() and step.compute(): what the command said, and its status."""
    def run(*_, **__):
        step.log_path.write_text(said)
        return status
    return run


@pytest.mark.parametrize("said, status, counts", [
    ("..s.\n3 passed, 1 skipped in 1.00s", 0, (3, 0, 1)), ("FAILED tests/service/test_a.py::test_b\n1 failed, 2 passed in 1.00s", 1, (2, 1, 0)),
    ("no tests ran in 0.01s", 5, (0, 0, 0)), ("INTERNALERROR", 3, (0, 1, 0)), ("3 passed in 1.00s\nException ignored in: <_io.FileIO>", 0, (0, 1, 0))])
def test_a_part_that_counts_nothing_has_failed(runner, tmp_path, monkeypatch, said, status, counts):
    monkeypatch.setattr(runner("step"), "LOGS", tmp_path)
    service = runner("service")
    monkeypatch.setattr(service, "LOGS", tmp_path)
    step = runner("step").Step("service", None)
    step.run = ended_command(step, said, status)
    service.test(step, SimpleNamespace(name="build", folder=tmp_path, prefix=[], environment={}), ["tests/service/test_a.py"])
    assert step.counts == counts


@pytest.mark.parametrize("said, status, counts", [
    ("order: 3 s\nframe: 2 s", 0, (2, 0, 0)), ("order: 3 s\nframe: failed", 1, (1, 1, 0)), ("", 1, (0, 1, 0)), ("order: 3 s", 1, (0, 1, 0)),
    ("order: failed", 124, (0, 1, 0))])
def test_benchmarks_that_were_not_begun_have_failed(runner, tmp_path, monkeypatch, said, status, counts):
    monkeypatch.setattr(runner("step"), "LOGS", tmp_path)
    step = runner("step").Step("bench", None)
    step.compute = ended_command(step, said, status)
    runner("bench").check(step)
    assert step.counts == counts


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


# ---- tests that passed before ---------------------------------------------------------------------

@pytest.fixture
def kept(runner, tmp_path, monkeypatch):
    """kept(inputs of each test, setting) -> Kept, each with the same folder."""
    monkeypatch.setattr(runner("passed"), "CACHE", tmp_path / "cache")

    def make(texts, setting=""):
        return runner("kept").Kept(setting, lambda tests: {test: texts[test] for test in tests})

    return make


def run_all(kept, counted):
    """Runs what is left; returns its names."""
    left = kept.left(list(counted))
    kept.add({test: counted[test] for test in left})
    return left


def test_what_passed_with_the_same_inputs_is_counted_and_not_run(runner, kept):
    counted = {"a": (3, 0, 1), "b": (2, 0, 0)}
    assert run_all(kept({"a": b"1", "b": b"1"}), counted) == ["a", "b"]
    second = kept({"a": b"1", "b": b"2"})
    assert second.left(["a", "b"]) == ["b"]
    step = runner("step").Step("part", None)
    second.count(step, 2, 0, 0)
    assert (step.counts, step.kept) == ((5, 0, 1), 4)
    assert kept({"a": b"1"}, "another setting").left(["a"]) == ["a"]


def test_what_failed_runs_again(kept):
    texts = {"a": b"1", "b": b"1"}
    run_all(kept(texts), {"a": (3, 1, 0), "b": (0, 0, 0)})
    assert kept(texts).left(["a", "b"]) == ["a"]


def test_an_input_that_changed_while_the_test_ran_is_not_known(kept):
    texts = {"a": b"1"}
    first = kept(texts)
    assert first.left(["a"]) == ["a"]
    texts["a"] = b"2"
    first.add({"a": (1, 0, 0)})
    assert kept(texts).left(["a"]) == kept({"a": b"1"}).left(["a"]) == ["a"]


@pytest.fixture
def inputs(runner, tmp_path, monkeypatch):
    """The module, with a small tree of its own; inputs.write(path, text) changes it, inputs.build is a build of it."""
    found = runner("inputs")
    monkeypatch.setattr(found, "ROOT", tmp_path)
    found.build = SimpleNamespace(name="build", folder=tmp_path / "build", prefix=[], environment={}, note=lambda: "-O2")

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    found.write = write
    for path, text in SMALL_TREE.items():
        write(path, text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return found


SMALL_TREE = {
    ".gitignore": "/build\n/cache\n", "README.md": "", "sampler/main.c": "", "deploy/install": "", "tests/skips": "",
    "tests/service/conftest.py": "", "tests/service/helper.py": 'run("trainer")', "tests/fuzz/corpus/uri/1": "",
    "tests/service/test_sampler.py": 'start("sampler")', "tests/service/test_train.py": "from helper import train\n",
    "tests/service/test_deploy.py": 'INSTALL = ROOT / "deploy" / "install"',
    "tests/service/test_sources.py": 'run(["cc", ROOT / "sampler"])',
    **{f"build/{path}": "" for path in ("config.h", "sampler/tombola-sampler", "loader/tombola-loader", "trainer/tombola-trainer",
                                        "loader/.libs/libtombola.so", "tests/unit/test_a", "tests/unit/test_linked",
                                        "tests/unit/.libs/test_linked", "tests/fuzz/fuzz_uri")}}
SERVICE_TESTS = [f"tests/service/test_{name}.py" for name in ("sampler", "train", "deploy", "sources")]
PROGRAMS = ["tests/unit/test_a", "tests/unit/test_linked", "tests/fuzz/fuzz_uri"]
EACH = "sampler train deploy sources"


@pytest.mark.parametrize("path, again", [
    ("build/trainer/tombola-trainer", "train deploy sources"), ("build/sampler/tombola-sampler", "sampler deploy sources"),
    ("build/loader/tombola-loader", EACH), ("build/loader/.libs/libtombola.so", EACH), ("build/config.h", EACH),
    ("tests/service/test_sampler.py", "sampler"), ("tests/service/helper.py", EACH), ("tests/service/new.c", EACH),
    ("tests/service/conftest.py", EACH), ("tests/skips", EACH), ("deploy/install", "deploy sources"),
    ("sampler/main.c", "sources"), ("README.md", "sources"), ("build/tests/unit/test_a", ""), ("tests/unit/test_a.c", "")])
def test_a_service_test_runs_again_when_an_input_of_it_changed(inputs, path, again):
    before = inputs.of_tests(inputs.build, SERVICE_TESTS)
    assert inputs.of_tests(inputs.build, SERVICE_TESTS) == before
    inputs.write(path, '# changed')
    after = inputs.of_tests(inputs.build, SERVICE_TESTS)
    assert [test for test in SERVICE_TESTS if after[test] != before[test]] == [f"tests/service/test_{name}.py" for name in again.split()]


@pytest.mark.parametrize("path, again", [
    ("build/tests/unit/test_a", "a"), ("build/tests/unit/.libs/test_linked", "linked"), ("build/loader/.libs/libtombola.so", "linked"),
    ("build/tests/fuzz/fuzz_uri", "uri"), ("tests/fuzz/corpus/uri/2", "uri"), ("tests/unit/tap", "a linked uri"),
    ("sampler/main.c", ""), ("tests/service/helper.py", "")])
def test_a_unit_program_runs_again_when_an_input_of_it_changed(inputs, path, again):
    before = inputs.of_programs(inputs.build, PROGRAMS)
    inputs.write(path, "changed")
    after = inputs.of_programs(inputs.build, PROGRAMS)
    assert [name.rpartition("_")[2] for name in PROGRAMS if after[name] != before[name]] == again.split()


def test_each_day_and_each_machine_runs_all(inputs, monkeypatch):
    monkeypatch.setattr(inputs, "said_by", lambda *_, **__: "")
    monkeypatch.setattr(inputs, "machine", lambda: "this one")
    found = [inputs.setting(inputs.build, "service", "-m", "heavy")]
    assert inputs.setting(inputs.build, "service", "-m", "heavy") == found[0]
    found.append(inputs.setting(inputs.build, "service"))
    monkeypatch.setattr(inputs, "day", lambda: 1)
    found.append(inputs.setting(inputs.build, "service"))
    monkeypatch.setattr(inputs, "machine", lambda: "another")
    found.append(inputs.setting(inputs.build, "service"))
    inputs.build.environment = {"LD_LIBRARY_PATH": "emulated"}
    found.append(inputs.setting(inputs.build, "service"))
    assert len(set(found)) == len(found)


def test_the_modules_that_a_test_names_count_for_it(runner):
    texts = {"tests/service/test_a.py": "from test_b import x\n", "tests/service/test_b.py": "import helper", "tests/service/helper.py":
             'run("trainer")', "tests/service/test_c.py": "here it says that the helpers are many"}
    reading = runner("inputs").Reading
    assert reading("tests/service/test_a.py", texts).modules == [f"tests/service/{name}.py" for name in ("test_a", "test_b", "helper")]
    assert reading("tests/service/test_c.py", texts).modules == ["tests/service/test_c.py"]


def test_what_a_file_of_tests_counts(runner):
    outcomes = {"tests/a.py::test_x": "passed", "tests/a.py::test_x[1]@a": "skipped", "tests/a.py::test_xy@a": "failed", "tests/aa.py::test_x": "passed"}
    counts = runner("service").counts
    assert counts(outcomes, "tests/a.py") == (1, 1, 1)
    assert counts(outcomes, "tests/a.py::test_x") == (1, 0, 1)
    assert counts(outcomes, "tests/b.py") == (0, 0, 0)


def test_a_test_that_fails_in_its_end_has_failed(tmp_path):
    found = Outcomes(SimpleNamespace(cwd_relative_nodeid=lambda name: name), tmp_path / "found.json")
    for name, when, outcome in [("a", "setup", "passed"), ("a", "call", "passed"), ("a", "teardown", "failed"), ("b", "setup", "skipped"),
                                ("b", "teardown", "passed"), ("c", "setup", "failed"), ("d", "setup", "passed"), ("d", "call", "passed")]:
        found.pytest_runtest_logreport(SimpleNamespace(nodeid=name, when=when, outcome=outcome, failed=outcome == "failed",
                                                       skipped=outcome == "skipped"))
    found.pytest_sessionfinish()
    assert json.loads(found.path.read_text()) == {"a": "failed", "b": "skipped", "c": "failed", "d": "passed"}


def test_a_part_that_reads_the_whole_tree_runs_again_when_a_file_of_it_changed(runner, kept, inputs, monkeypatch):
    monkeypatch.setattr(inputs, "setting", lambda *words: str(words[2:]))
    ran = []

    def run(name, *counts):
        step = runner("step").Step(name, None)
        runner("kept").whole(lambda step: (ran.append(name), step.count(*counts)), inputs.build)(step)
        return step.counts, step.kept

    assert run("dist", 1, 0, 0) == ((1, 0, 0), 0)
    assert run("dist", 0, 1, 0) == ((1, 0, 0), 1), "it did not run"
    assert run("bench", 3, 1, 0) == run("bench", 3, 1, 0) == ((3, 1, 0), 0)
    inputs.write("sampler/main.c", "changed")
    run("dist", 1, 0, 0)
    run("cuda", 0, 0, 1)
    run("cuda", 0, 0, 1)
    assert ran == ["dist", "bench", "bench", "dist", "cuda", "cuda"]


@pytest.mark.parametrize("words, keeps", [([], True), (["--changed"], True), (["--fresh"], False), (["unit"], False),
                                          (["--changed", "test_json"], False), (["sampler/journal"], False)])
def test_what_a_person_names_runs(runner, words, keeps):
    chosen = runner("selection").Selection([word for word in words if not word.startswith("-")], runner("parts").NAMES)
    assert chosen.may_keep(words, is_long=False) is keeps
    assert not chosen.may_keep(words, is_long=True)
