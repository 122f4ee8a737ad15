# SPDX-License-Identifier: MIT
"""deploy's scripts when a disk hangs, a process stands still or the clock jumps: they say what they wait for, and go on afterwards."""

import os
import pty
import re
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, environment, preloaded, wait_for
from marked import marked, new_mark
from test_tombola_run import QUICK, child_of, nobody_is_left, started, table  # noqa: F401

pytestmark = pytest.mark.heavy

ENDLESS = ("--steps", 1000000000)
HANGING_DISK = ROOT / "tests" / "fault" / "hanging_disk.c"


STARTED = []


def start(*words, **more):
    STARTED.append(started(*words, **more))
    return STARTED[-1]


@pytest.fixture(autouse=True)
def end():
    """What a failed test leaves ends, too: also who stands still."""
    yield
    while STARTED:
        one = STARTED.pop()
        for pid in marked(one.mark):
            os.kill(pid, signal.SIGKILL)
        one.wait()


@pytest.fixture
def programs(tmp_path):
    """A build folder of programs that do something else first: programs(sampler="words of a shell script")."""
    def make(**first):
        for name in ("sampler", "loader", "trainer"):
            path = tmp_path / "programs" / name / f"tombola-{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"#!/bin/bash\n{first.get(name, '')}\nexec {BUILD / name / path.name} \"$@\"\n")
            path.chmod(0o755)
        return {"TOMBOLA_BUILD": str(tmp_path / "programs")}
    return make


def faketime(clock):
    """The environment of a shell whose time of day is what the file says; the programs that it starts have the machine's."""
    found = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    assert found, "libfaketime is not installed (deploy/install test)"
    clock.write_text("+0\n")
    return {**preloaded(found[0]), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1"}


def done(one, status):
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == status, (out or "") + err
    nobody_is_left(one)
    return out, err


class Terminal:
    """What a script shows on a terminal."""

    def __init__(self, folder, *words, **more):
        self.shown = ""
        self.end, theirs = pty.openpty()
        self.one = start(folder, *words, stdout=theirs, **{"TERM": "xterm", **more})
        os.close(theirs)

    def wait_for(self, pattern):
        def seen():
            self.shown += os.read(self.end, 65536).decode()
            return re.search(pattern, self.shown)
        return wait_for(seen, f"it never shows {pattern}")

    def close(self):
        self.one.terminate()
        return self.wait(128 + signal.SIGTERM)

    def wait(self, status):
        while True:
            try:
                said = os.read(self.end, 65536).decode()
                if not said:
                    break
                self.shown += said
            except OSError:  # the last one who had the terminal has ended
                break
        os.close(self.end)
        return done(self.one, status)


def test_what_was_waited_for_does_not_stay_on_the_screen(table):  # noqa: F811
    terminal = Terminal(table.parent, table.name, "--label", "species", "--test", table, "--steps", 50, *QUICK)
    terminal.wait(0)
    assert "waiting for the sampler" in terminal.shown
    left = [line.rpartition("\x1b[K")[2] for line in terminal.shown.split("\n")]
    assert not [line for line in left if "waiting" in line], left


# ---- a disk that hangs ----------------------------------------------------------------------------


def test_a_sampler_whose_disk_hangs_is_asked_again(table, programs, library, tmp_path):  # noqa: F811
    """From when it is ready until the script has heard that its disk does not answer."""
    calls = tmp_path / "calls"
    calls.mkdir()
    more = programs(sampler=f"""
        if [[ $1 == healthcheck ]]; then
            {BUILD}/sampler/tombola-sampler "$@" || exit
            touch {calls}/fdatasync
            exit
        fi
        export LD_PRELOAD={library(HANGING_DISK)} HANGING_DISK={calls}""")
    terminal = Terminal(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK, **more, COLUMNS="200",
                        ASAN_OPTIONS=preloaded("")["ASAN_OPTIONS"])
    terminal.wait_for(r"a stream of test rows \(HTTP/1.1 503 ")  # its disk has not answered
    (calls / "fdatasync").unlink()
    terminal.wait(0)


def test_a_model_that_the_disk_does_not_take_is_told(table, programs, library, tmp_path):  # noqa: F811
    (tmp_path / "calls").mkdir()
    (tmp_path / "calls" / "fsync").touch()
    terminal = Terminal(table.parent, table.name, "--label", "species", *ENDLESS, *QUICK,
                        **programs(trainer=f"export LD_PRELOAD={library(HANGING_DISK)} HANGING_DISK={tmp_path}/calls"),
                        ASAN_OPTIONS=preloaded("")["ASAN_OPTIONS"])
    terminal.wait_for("worker-0: waiting .* while the logdir")
    (tmp_path / "calls" / "fsync").unlink()
    terminal.close()


def test_an_import_says_how_far_it_is(table, programs, tmp_path):  # noqa: F811
    more = programs(loader=f"""
        echo "2026-11-27T01:33:42.962Z info    reading a: b.csv: 103 of 172 (60 %) MB, 51 MB/s, 1 s left" >&2
        until [[ -e {tmp_path}/seen ]]; do sleep 0.1; done""")
    terminal = Terminal(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK, **more)
    terminal.wait_for(r"importing flowers.csv: 103 of 172 \(60 %\) MB, 51 MB/s")
    (tmp_path / "seen").touch()
    terminal.wait(0)


def test_a_note_that_cannot_be_written_is_named(table, programs):  # noqa: F811
    """And the import is made again."""
    words = table.name, "--label", "species", "--steps", 50, *QUICK
    note = table.parent / "flowers.tombola/imported"
    _, said = done(start(table.parent, *words, **programs(loader=f"ln -s /dev/full {note}")), 1)
    assert said == "tombola: cannot write flowers.tombola/imported: is its disk full?\n"
    note.unlink()
    out, _ = done(start(table.parent, *words), 0)
    assert "300 rows" in out


# ---- a process that is killed ---------------------------------------------------------------------


@pytest.mark.parametrize("name, command, says", [
    ("loader", "import", "importing flowers.csv failed with exit status 137 (SIGKILL)"),
    ("sampler", "serve", "the sampler ended with exit status 137 (SIGKILL) before it was ready"),
    ("trainer", "evaluate", "testing failed with exit status 137 (SIGKILL)")], ids=["import", "serve", "evaluate"])
def test_who_is_killed_is_told_in_our_words(table, programs, name, command, says):  # noqa: F811
    """And not in bash's: "line 123: 4567 Killed ..."."""
    more = programs(**{name: f"[[ $1 != {command} ]] || kill -KILL $$"})
    _, err = done(start(table.parent, table.name, "--label", "species", "--steps", 20, *QUICK, **more), 1)
    assert f"tombola: {says}\n" in err and "Killed" not in err


# ---- a process that stands still ------------------------------------------------------------------


def test_a_server_that_stands_still_is_named_and_goes_on(table):  # noqa: F811
    terminal = Terminal(table.parent, table.name, "--label", "species", *ENDLESS, "--ps", 1, *QUICK)
    terminal.wait_for(r"step \d+ of .* 1 of 1 workers")
    server = child_of(terminal.one, "ps", "--task-index", "0")
    os.kill(server, signal.SIGSTOP)
    terminal.shown = ""
    terminal.wait_for("waiting for ps-0; its log: flowers.tombola/ps-0.log")
    terminal.shown = ""
    os.kill(server, signal.SIGCONT)
    terminal.wait_for(r"step \d+ of .* 1 of 1 workers")
    terminal.close()


def test_whoever_does_not_end_is_named(table):  # noqa: F811
    one = start(table.parent, table.name, "--label", "species", *ENDLESS, *QUICK)
    log = table.parent / "flowers.tombola/worker-0.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    stopped = {"sampler": child_of(one, "serve"), "worker-0": child_of(one, "--logdir")}
    for process in stopped.values():
        os.kill(process, signal.SIGSTOP)
    one.terminate()
    _, said = done(one, 128 + signal.SIGTERM)
    for name, process in stopped.items():
        assert f"waiting for {name} (process {process}) to end; its log: flowers.tombola/{name}.log" in said
        assert f"{name} (process {process}) did not end within 20 s and is killed" in said


@pytest.mark.parametrize("shown", ["", "a line"])
def test_off_a_terminal_a_line_a_minute_says_what_is_waited_for(shown):
    """The minute is over where the step has begun long ago."""
    begin = "step_begin train; step_line_ms=$((step_line_ms - 60000))" if shown else "step_begin train"
    script = f". {ROOT}/deploy/step.sh; {begin}; step_show 'waiting for ps-0'; step_show 'waiting for ps-0'"
    out = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
    assert out.split()[2:] == (["s", "waiting", "for", "ps-0"] if shown else [])


def shown_on_a_terminal(script, **more):
    end, theirs = pty.openpty()
    subprocess.run(["bash", "-euc", f". {ROOT}/deploy/step.sh; step_begin evaluate; {script}"], stdout=theirs, timeout=PATIENCE_S, check=True,
                   env=environment({"TERM": "xterm", **more}))
    os.write(theirs, b".")  # or nothing may be there to read
    os.close(theirs)
    shown = os.read(end, 65536).decode()
    os.close(end)
    return shown.removesuffix(".")


@pytest.mark.parametrize("columns", [30, 40, 50, 80, 200])
def test_on_a_terminal_the_line_is_one_line(columns):
    """One that goes on in the next is not taken away with it, and a new one comes every third of a second."""
    shown = shown_on_a_terminal(f"COLUMNS={columns}; step_show 'waiting for the sampler; its log: {'x' * 300}'").removeprefix("\r\x1b[K")
    assert shown.startswith("  evaluate ") and columns > len(shown) >= max(columns, 35) - 5 or len(shown) == 34


def test_a_terminal_that_takes_nothing_back_gets_whole_lines():
    shown = shown_on_a_terminal("step_show 'waiting'; step_clear; step_end done", TERM="dumb")
    assert shown.startswith("  evaluate ") and "\x1b" not in shown


def test_a_number_that_is_somebody_elses_now():
    """Of a child that ended long ago: 1, which is always there, stands for it. It was waited for as long as the other one ran."""
    script = f". {ROOT}/deploy/step.sh; wait() {{ return 7; }}; step_ended 1; echo $step_status; sleep 100 & ! step_ended $!; kill $!"
    done_so = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert done_so.stdout == "7\n"


# ---- a clock that jumps ---------------------------------------------------------------------------


@pytest.mark.parametrize("jump", ["+1h", "-1h"])
def test_the_wall_clock_may_jump(table, programs, tmp_path, jump):  # noqa: F811
    """While a sampler that listens is not ready yet: an hour is not what it was waited for, nor what it is waited for."""
    clock = tmp_path / "clock"
    more = programs(**dict.fromkeys(("loader", "trainer"), "unset LD_PRELOAD"), sampler=f"""
        unset LD_PRELOAD
        if [[ $1 == healthcheck && ! -e {tmp_path}/asked-3 ]]; then
            for count in 1 2 3; do
                [[ -e {tmp_path}/asked-$count ]] || break
            done
            echo {jump} >{clock}
            touch {tmp_path}/asked-$count
            echo "not yet" >&2
            exit 1
        fi""")
    out, _ = done(start(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK, **faketime(clock), **more), 0)
    assert not re.search(r" -\d+\.\d s ", out) and (tmp_path / "asked-3").exists()


# ---- quickstart -----------------------------------------------------------------------------------


def quickstart(folder, *words):
    mark = new_mark()
    STARTED.append(subprocess.Popen(
        [ROOT / "deploy" / "quickstart", "--no-install", "--work", folder / "work", "--rows", "2000", *map(str, words)], text=True,
        env=environment({"TOMBOLA_BUILD": str(BUILD), **mark}), stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        start_new_session=True))
    STARTED[-1].mark = mark
    return STARTED[-1]


def process(*words):
    """The process whose command line has all of these."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            has = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if set(map(os.fsencode, words)) <= set(has):
            return int(path.parent.name)
    return None


@pytest.mark.parametrize("name", ["sampler", "ps", "worker-1"])
def test_quickstart_does_not_wait_for_who_has_died(tmp_path, name):
    one = quickstart(tmp_path, *ENDLESS)
    folder = tmp_path / "work/demo"
    log = folder / "worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    words = {"sampler": ("serve", f"sqlite:{folder}/samples.sqlite"), "ps": ("ps", str(folder / "model")),
             "worker-1": ("worker", str(folder / "model"))}[name]
    for _ in range(2 if name == "worker-1" else 1):
        os.kill(victim := wait_for(lambda: process(*words), "it is not there"), signal.SIGKILL)
        wait_for(lambda: process(*words) != victim, "it lives on")
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 1, out + err
    who = "the sampler" if name == "sampler" else name
    assert f"quickstart: training failed: {who} ended with exit status 137" in err and f"the whole log: {folder}/{name}.log" in err
    assert one.wait() == 1 and not process(*words)


def test_a_note_of_quickstart_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work/half-made").symlink_to("/dev/full/x")
    one = quickstart(tmp_path, *ENDLESS)
    _, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 1 and err == f"quickstart: cannot write {tmp_path}/work/half-made: is its disk full?\n"
