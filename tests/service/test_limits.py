# SPDX-License-Identifier: MIT
"""The tools of the tests: what hangs is named and ended, and a skip that tests/skips does not allow is a failure."""

import os
import re
import subprocess
import sys

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, wait_for

pytestmark = pytest.mark.plain

TESTS = ROOT / "tests"
CONFTEST = f"""import sys
sys.path.insert(0, {str(TESTS / 'service')!r})
from limits import pytest_runtest_call, pytest_runtest_setup, pytest_runtest_teardown
from skips import pytest_make_collect_report, pytest_runtest_makereport
"""


def call(*words, **variables):
    env = {**os.environ, "TOMBOLA_BUILD": str(BUILD), **variables}
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=env, timeout=PATIENCE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def is_gone(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def check_gone(folder):
    """Those that wrote their process id into a file of the folder."""
    pids = [int(path.read_text()) for path in folder.glob("pid*")]
    assert pids
    wait_for(lambda: all(map(is_gone, pids)), f"{pids} still run")


# ---- tests/limit --------------------------------------------------------------------------------


def test_a_command_within_its_limit_is_left_alone(tmp_path):
    assert call(TESTS / "limit", 1000, "it", "sh", "-c", 'printf "%s|" "$@"; echo b >&2; exit 7', "sh", "a b", "*") == (7, "a b|*|", "b\n")
    ignored = call(TESTS / "limit", 1000, "it", "grep", "SigIgn", "/proc/self/status")[1]
    assert int(ignored.split()[1], 16) & (1 << 1 | 1 << 14) == 0, "neither SIGINT nor SIGTERM is ignored by what it starts"


def test_what_runs_into_its_limit_is_named_and_all_of_it_ended(tmp_path):
    """Also what left its session, and whose parent has gone."""
    script = 'cd "$0"; echo $$ >pid0; setsid sh -c "echo \\$\\$ >pid1; sleep 7777" & (sh -c "echo \\$\\$ >pid2; sleep 7777" &); sleep 7777'
    status, _, said = call(TESTS / "limit", 2, "the part", "sh", "-c", script, tmp_path)
    assert status == 124
    assert "limit: the part ran into its limit of 2 s" in said and "sleep 7777" in said
    assert len(list(tmp_path.glob("pid*"))) == 3
    check_gone(tmp_path)


def test_a_limit_inside_another_one_ends_its_own_alone(tmp_path):
    script = f'echo $$ >"$0/pid0"; "{TESTS}/limit" 1 inner sleep 7777; echo "inner $?"'
    status, said, errors = call(TESTS / "limit", 1000, "outer", "sh", "-c", script, tmp_path)
    assert (status, said) == (0, "inner 124\n") and "outer" not in errors


# ---- unit tests ---------------------------------------------------------------------------------


def tap(folder, name, script, **variables):
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return call(TESTS / "unit" / "tap", program, **variables)


def test_a_unit_test_that_hangs_is_named(tmp_path):
    script = f'echo "1..2\n# begin test_one\nok 1 - test_one\n# begin test_two"; echo $$ >{tmp_path}/pid; sleep 7777; echo ok 2'
    status, said, errors = tap(tmp_path, "test_x", script, TOMBOLA_UNIT_LIMIT="1")
    assert status == 124 and "not ok - test_two ran into the limit of 1 s\n" in said
    assert "test_x ran into its limit" in errors
    check_gone(tmp_path)


@pytest.mark.parametrize("said", ["not ok", "ok"])  # by older and newer cmocka
def test_a_skip_of_a_unit_test_is_a_failure_unless_it_is_listed(tmp_path, said):
    skipping = f'echo "1..1\n# begin {{0}}\n# no moon\n{said} 1 # SKIP {{0}}"'
    assert "not ok 1 - test_any was skipped (no moon)" in tap(tmp_path, "test_x", skipping.format("test_any"))[1]
    listed = ("test_rank_bitmap", skipping.format("test_past_the_first_base"))
    assert "\nok 1 # SKIP" in tap(tmp_path, *listed, TOMBOLA_LONG="0")[1]
    assert "\nnot ok 1 - " in tap(tmp_path, *listed, TOMBOLA_LONG="1")[1]
    ran = ("test_rank_bitmap", 'echo "1..1\n# begin test_past_the_first_base\nok 1 - test_past_the_first_base"')
    assert "not ok 1 - test_past_the_first_base ran, which" in tap(tmp_path, *ran, TOMBOLA_LONG="0")[1]
    assert "\nok 1 - " in tap(tmp_path, *ran, TOMBOLA_LONG="1")[1]


# ---- pytest -------------------------------------------------------------------------------------


def run_pytest(folder, file, text, **variables):
    tests = folder / "service"
    tests.mkdir()
    (tests / "conftest.py").write_text(CONFTEST)
    (tests / file).write_text(text)
    return call(sys.executable, "-m", "pytest", "-q", "-rA", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", tests,
                PYTHONDONTWRITEBYTECODE="1", **variables)


def test_a_test_that_hangs_is_named_with_stacks_and_what_it_started_ended(tmp_path):
    status, said, _ = run_pytest(tmp_path, "test_x.py", f"""
import pathlib, subprocess, time, pytest

@pytest.fixture
def hangs_at_its_end():
    yield
    time.sleep(7777)

def test_hangs():
    child = subprocess.Popen(["sh", "-c", "sleep 7777; true"])
    pathlib.Path({str(tmp_path)!r}, "pid").write_text(str(child.pid))
    while True:
        try:
            time.sleep(7777)
        except Exception:
            pass

def test_whose_end_hangs(hangs_at_its_end):
    pass

def test_after_them():
    pass
""", TOMBOLA_TEST_LIMIT="2")
    assert status == 1
    assert re.search(r"^FAILED .*test_x.py::test_hangs\b", said, re.MULTILINE)
    assert re.search(r"^ERROR .*test_x.py::test_whose_end_hangs\b", said, re.MULTILINE)
    assert re.search(r"^PASSED .*test_x.py::test_after_them$", said, re.MULTILINE)
    assert "test_hangs ran into its limit of 2 s, in its call" in said
    assert "test_whose_end_hangs ran into its limit of 2 s, in its teardown" in said
    assert "(most recent call first)" in said and "sleep 7777" in said
    check_gone(tmp_path)


def test_a_skip_is_a_failure_unless_it_is_listed(tmp_path):
    (tmp_path / "config.log").write_text("-fsanitize=address")  # a build that cannot run test_the_example_*
    status, said, _ = run_pytest(tmp_path, "test_libtombola.py", """
import pytest

def test_inside():
    pytest.skip("no moon")

@pytest.mark.skipif(True, reason="no sun")
def test_by_a_mark():
    pass

def test_the_example_skipped():
    pytest.skip("it is listed")

def test_the_example_ran():
    pass
""", TOMBOLA_BUILD=str(tmp_path))
    assert status == 1 and "2 failed, 1 skipped, 1 error" in said
    assert "tests/skips does not allow here: Skipped: no moon" in said
    assert "tests/skips does not allow here: Skipped: no sun" in said
    assert "it ran, but tests/skips says that it cannot here" in said


def test_a_file_that_skips_itself_is_a_failure(tmp_path):
    status, said, _ = run_pytest(tmp_path, "test_x.py", 'import pytest\npytest.importorskip("nothing_of_this_name")\n')
    assert status != 0 and "tests/skips does not allow here" in said


def test_every_line_of_the_list_names_a_test():
    """One that was renamed would be allowed no more, and one that is gone not be missed."""
    text = (TESTS / "skips").read_text()
    lines = re.search(r"<<'EOF'\n(.*?)^EOF$", text, re.MULTILINE | re.DOTALL).group(1).splitlines()
    assert len(lines) > 20
    for line in lines:
        condition, pattern, reason = line.split(None, 2)
        assert re.search(rf"^    {condition}\) ", text, re.MULTILINE) and reason, line
        if script := re.fullmatch(r"(\w+)/\*", pattern):  # a part that is one script, or a folder of them
            assert (TESTS / script[1]).exists(), line
            continue
        file, test = re.split("::?", pattern, maxsplit=1)
        files = [*TESTS.glob(file if file.endswith(".py") else f"{file}.c"), *TESTS.glob("unit/*.h" if "*" in file else "none")]
        assert files, line
        words = [word for word in re.split(r"[*?\W]+", test) if word]
        assert any(all(word in path.read_text() for word in words) for path in files), line


def test_the_list_knows_who_is_no_root():
    everybody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    said = subprocess.run([*everybody, "bash", "-s", "fault/"], input=(TESTS / "skips").read_text(), capture_output=True, text=True,
                          env={**os.environ, "TOMBOLA_BUILD": "/nowhere"}, check=True, timeout=PATIENCE_S).stdout
    assert "fault/test_sampler_disk.py::test_a_full_*tmpfs*" in said and "mounting needs root" in said
