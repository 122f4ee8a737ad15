# SPDX-License-Identifier: MIT
"""deploy/quickstart: what a person does first must work, and leave nothing behind however it ends."""

import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, environment, wait_for
from marked import marked, new_mark
from test_tombola_run import OTHERS

QUICKSTART = ROOT / "deploy" / "quickstart"
ROWS, STEPS = 2000, 300

pytestmark = pytest.mark.heavy


class Started:
    """A quickstart as a terminal starts it: leader of a process group of its own."""

    def __init__(self, *arguments, folder, more=None):
        self.mark = new_mark()
        self.log = folder / f"quickstart-{uuid.uuid4().hex}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(QUICKSTART), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=default_signals,
                env=environment({"TOMBOLA_BUILD": str(BUILD), **(more or {}), **self.mark}))

    @property
    def output(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, text):
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.output:
            assert self.process.poll() is None, f"ended before {text!r}:\n{self.output}"
            assert time.monotonic() < deadline, f"no {text!r} in:\n{self.output}"
            time.sleep(0.005)

    def wait(self):
        status = self.process.wait(timeout=PATIENCE_S)
        assert self.left_running() == [], self.output
        return status

    def left_running(self):
        return list(self.processes().values())

    def processes(self):
        return marked(self.mark)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def default_signals():
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def quickstart(tmp_path):
    """quickstart(ARGUMENT...) -> Started, working below tmp_path."""
    started = []

    def start(*arguments, **more):
        started.append(Started("--no-install", "--work", tmp_path / "work", *arguments, folder=tmp_path, more=more))
        return started[-1]

    yield start
    for one in started:
        one.end()


def done(started, status=0):
    got = started.wait()
    assert got == status, f"exit {got}, not {status}\n{started.output}"
    return started.output


def small(quickstart, *arguments):
    return done(quickstart("--rows", ROWS, "--steps", STEPS, *arguments))


def checkpoint_of(output):
    return re.search(r"checkpoint: (\S+)", output).group(1)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# ---- usage ----------------------------------------------------------------------------------------


def test_help_names_every_option(quickstart, tmp_path):
    output = done(quickstart("--help"))
    for option in ("--build-only", "--data", "--rows", "--steps", "--fresh", "--work", "--no-install"):
        assert option in output
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("arguments, says", [
    (["--bogus"], "--bogus"),
    (["extra"], "extra"),
    (["--data"], "--data wants a value"),
    (["--rows", "0"], "'0'"),
    (["--steps", "ten"], "'ten'"),
    (["--steps", "-1"], "'-1'"),
])
def test_bad_usage(quickstart, tmp_path, arguments, says):
    assert says in done(quickstart(*arguments), status=2)
    assert not (tmp_path / "work").exists()


def test_data_that_is_not_there(quickstart, tmp_path):
    output = done(quickstart("--data", tmp_path / "nowhere"), status=2)
    assert f"{tmp_path}/nowhere/mnist_train.csv" in output
    half = tmp_path / "half"
    half.mkdir()
    (half / "mnist_train.csv").write_text("1,2,3\n")
    assert f"{half}/mnist_test.csv" in done(quickstart("--data", half), status=2)
    (half / "mnist_test.csv").write_text("")
    assert "is empty" in done(quickstart("--data", half), status=2)


@pytest.mark.parametrize("name", ["it's", "a\nb", "$HOME", "a\\b"])
def test_a_folder_in_which_make_cannot_build(tmp_path, name):
    """configure says so after half a minute, and calls it an unsafe srcdir value."""
    env = environment({"TOMBOLA_BUILD": str(tmp_path / name)})
    said = subprocess.run([QUICKSTART, "--no-install", "--work", tmp_path / "work"], env=env, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert said.returncode == 1 and f"in {tmp_path}/{name}: a name has" in said.stderr and not (tmp_path / name).exists()


# What stands for the tree: configure notes its words and what it is of, make copies that as the programs.
CONFIGURE = """#!/bin/sh
mkdir busy || exit
echo "configured $*" >>said
sleep 0.5
[ $# = 0 ] || words=$(printf " '%s'" "$@")
printf '#!/bin/sh\\necho "%s"\\n' "$words" >config.status
chmod +x config.status
printf 'abs_top_srcdir = %s\\nall:\\n' "$(cd "$(dirname "$0")" && pwd)" >Makefile
for name in sampler loader trainer; do
    printf '\\tmkdir -p %s && cp "$(abs_top_srcdir)/source" %s/tombola-%s\\n' $name $name $name >>Makefile
done
rmdir busy
"""


def small_tree(folder):
    for name in ("quickstart", "step.sh", "training.sh"):
        (folder / "deploy").mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "deploy" / name, folder / "deploy")
    (folder / "build-aux").mkdir()
    for name in ("Makefile.in", "config.h.in", "build-aux/ltmain.sh"):
        (folder / name).touch()
    for name, text in (("configure", CONFIGURE), ("source", "first")):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def built(tree, *words):
    """What `quickstart --build-only` made there."""
    done = subprocess.run([tree / "deploy/quickstart", "--build-only", "--no-install", *words], env=environment(), capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return (tree / "build/sampler/tombola-sampler").read_text()


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_a_tree_that_was_copied_with_its_build_builds_itself(tmp_path, move):
    """And not what the other one is. It stays configured as it was."""
    one, other = small_tree(tmp_path / "one"), tmp_path / "other"
    (one / "build").mkdir()
    subprocess.run([one / "configure", "--without-cuda", "CFLAGS=-O3 -g"], cwd=one / "build", check=True)
    assert built(one) == "first"
    move(one, other)
    (other / "source").write_text("second")
    assert built(other) == built(other) == "second"
    assert (other / "build/said").read_text() == "configured --without-cuda CFLAGS=-O3 -g\n" * 2
    assert not one.exists() or built(one) == "first"


def test_a_tree_may_have_a_blank_in_its_name(tmp_path):
    """But none between it and a build elsewhere, where configure would refuse it."""
    tree = small_tree(tmp_path / "my tree")
    assert built(tree) == built(tree) == "first"
    done = subprocess.run([tree / "deploy/quickstart", "--build-only", "--no-install"], env=environment({"TOMBOLA_BUILD": str(tmp_path / "other")}),
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and f"make cannot build {tree} in {tmp_path}/other: " in done.stderr and not (tmp_path / "other/Makefile").exists()


def test_two_at_once_build_one_after_the_other(tmp_path):
    """With folders of their own, in one tree."""
    tree = small_tree(tmp_path / "tree")
    with ThreadPoolExecutor(3) as team:
        assert list(team.map(lambda name: built(tree, "--work", tmp_path / name), "abc")) == ["first"] * 3
    assert (tree / "build/said").read_text() == "configured \n"


def test_a_second_one_in_the_same_folder_is_refused(quickstart):
    first = quickstart("--rows", ROWS, "--steps", 10**9)
    first.wait_for("worker-0.log")
    assert "another quickstart" in done(quickstart("--rows", ROWS), status=1)
    os.killpg(first.process.pid, signal.SIGINT)
    done(first, status=128 + signal.SIGINT)


# ---- the whole way --------------------------------------------------------------------------------


def accuracy_of(output):
    """By chance it would be 0.1."""
    return float(re.search(r"evaluate\s+[\d.]+ s\s+accuracy: (0\.\d+|1\.0+)", output).group(1))


def test_build_only(quickstart, tmp_path):
    output = done(quickstart("--build-only"))
    assert "build" in output and "train" not in output
    assert "next: " in output and "/sampler/tombola-sampler serve --store" in output
    assert not (tmp_path / "work" / "demo" / "data").exists()


def test_from_data_to_checkpoint_and_again(quickstart):
    output = small(quickstart)
    assert "/batch?size=100'" in output
    assert '{"stream":"default","epoch":0,"first":0,"size":100,"ids":[' in output
    assert accuracy_of(output) > 0.75
    assert os.path.getsize(checkpoint_of(output)) > 0

    again = small(quickstart)
    assert "demo data is there" in again
    assert "samples.sqlite is there" in again
    assert '"first":100,' in again, "the sampler's position was not kept"
    assert checkpoint_of(again) == checkpoint_of(output)

    further = done(quickstart("--rows", ROWS, "--steps", STEPS + 50))
    assert str(STEPS + 50) in checkpoint_of(further)


def test_options_of_others_in_the_environment(quickstart):
    output = done(quickstart("--rows", ROWS, "--steps", STEPS, **OTHERS))
    assert accuracy_of(output) > 0.75


def test_a_proxy_is_not_asked_for_this_machine(quickstart):
    """Who needs one for apt has it in the environment, often without no_proxy."""
    output = done(quickstart("--rows", ROWS, "--steps", STEPS, http_proxy="http://127.0.0.1:9", no_proxy=""))
    assert '{"stream":"default"' in output and "accuracy: " in output


def test_a_folder_with_a_line_break_in_its_name(quickstart, tmp_path):
    """And with what a URI would take apart. What was left half-made there is removed, and not what the first line names."""
    other, work = tmp_path / "a", tmp_path / "a\nb?c=%41"
    half = work / "demo" / "data.new"
    half.mkdir(parents=True)
    other.mkdir()
    (work / "half-made").write_text(f"{half}\n")
    small(quickstart, "--work", work)
    assert other.exists() and not half.exists()


def test_fresh_forgets_the_model_and_the_position(quickstart):
    small(quickstart)
    output = small(quickstart, "--fresh")
    assert "demo data is there" in output
    assert '"first":0,' in output


def test_other_rows_are_other_data(quickstart):
    small(quickstart)
    output = done(quickstart("--rows", ROWS // 2, "--steps", STEPS))
    assert f"drew {ROWS // 2}" in output
    assert '"first":0,' in output


@pytest.mark.parametrize("header", [False, True])
def test_own_data(quickstart, demo, tmp_path, header):
    folder = tmp_path / "own data 100% & more?"
    folder.mkdir()
    for name in ("mnist_train.csv", "mnist_test.csv"):
        text = (demo / name).read_text()
        columns = len(text.split("\n", 1)[0].split(","))
        head = ",".join(["label", *(f"1x{column}" for column in range(1, columns))]) + "\n"
        (folder / name).write_text((head if header else "") + text)
    before = files(folder)
    output = done(quickstart("--data", folder, "--steps", STEPS))
    assert accuracy_of(output) > 0.75
    assert files(folder) == before
    assert "samples.sqlite is there" in done(quickstart("--data", folder, "--steps", STEPS))


def test_bad_data_is_named(quickstart, demo, tmp_path):
    folder = tmp_path / "bad"
    folder.mkdir()
    good = (demo / "mnist_train.csv").read_text().splitlines()
    (folder / "mnist_train.csv").write_text("\n".join([*good[:10], good[10] + ",7", *good[11:20]]) + "\n")
    (folder / "mnist_test.csv").write_text("\n".join(good[:10]) + "\n")
    output = done(quickstart("--data", folder), status=1)
    assert "import.log" in output and "11" in output
    assert not list((tmp_path / "work").rglob("samples.sqlite*"))


# ---- stopped at any time --------------------------------------------------------------------------


def nothing_half_made(work):
    """Data and import are whole or not there; nothing temporary is left."""
    demo = work / "demo"
    for path in work.rglob("*"):
        assert not path.name.endswith((".new", ".tmp", "-journal", "-wal", "-shm", ".partial")), path
    if (demo / "data").exists():
        assert {"made-with", "mnist_train.csv", "mnist_test.csv"} <= {path.name for path in (demo / "data").iterdir()}
    assert (demo / "samples.sqlite").exists() == (demo / "samples.sqlite.from").exists()


MOMENTS = [
    ("Tombola quickstart", 0.0),
    ("Tombola quickstart", 0.3),
    ("  build ", 0.0),
    ("  build ", 0.1),
    ("  data ", 0.0),
    ("  data ", 0.05),
    ("  import ", 0.0),
    ("  import ", 0.05),
    ("  sampler ", 0.0),
    ("worker-0.log", 0.0),
    ("worker-0.log", 0.5),
]


@pytest.mark.parametrize("after, delay, number", [
    *((after, delay, signal.SIGINT) for after, delay in MOMENTS),
    *((after, delay, number) for after, delay in MOMENTS[1::3] for number in (signal.SIGTERM, signal.SIGHUP)),
])
def test_stopped(quickstart, tmp_path, after, delay, number):
    """Ctrl-C reaches the whole process group of the terminal, a kill only the script."""
    started = quickstart("--rows", ROWS, "--steps", 10**9)
    started.wait_for(after)
    time.sleep(delay)
    if number == signal.SIGINT:
        os.killpg(started.process.pid, number)
    else:
        started.process.send_signal(number)
    done(started, status=128 + number)
    nothing_half_made(tmp_path / "work")


def test_stopped_while_it_asks_apt(tmp_path):
    """What it has asked ends before it does."""
    asked = tmp_path / "asked"
    for name, body in (("id", "echo 0"), ("dpkg-query", ""), ("dpkg", ""), ("apt-get", ""), ("apt-cache", f"touch '{asked}'; sleep 2")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    started = Started("--work", tmp_path / "work", folder=tmp_path, more={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    try:
        wait_for(asked.exists, "it never asks for a package")
        os.killpg(started.process.pid, signal.SIGINT)
        done(started, status=128 + signal.SIGINT)
    finally:
        started.end()


def test_stopped_training_goes_on(quickstart):
    started = quickstart("--rows", ROWS, "--steps", 10**9)
    started.wait_for("step ")
    os.killpg(started.process.pid, signal.SIGINT)
    done(started, status=128 + signal.SIGINT)
    output = small(quickstart)
    assert "demo data is there" in output
    assert checkpoint_of(output)


@pytest.mark.parametrize("words, name", [(" serve ", "the sampler"), ("--job_name ps ", "ps")])
def test_who_is_waited_for_and_killed_ends_the_training(quickstart, tmp_path, words, name):
    """At once, not when the others lose their patience."""
    started = quickstart("--rows", ROWS, "--steps", 10**9)
    log = tmp_path / "work/demo/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    victim, = (pid for pid, said in started.processes().items() if words in said)
    os.kill(victim, signal.SIGKILL)
    output = done(started, status=1)
    assert f"training failed: {name} ended with exit status 137" in output and "Killed" not in output


def test_a_closed_pipe_ends_everything(quickstart, tmp_path):
    mark = new_mark()
    subprocess.run(
        f"'{QUICKSTART}' --no-install --work '{tmp_path}/work' --rows {ROWS} --steps {STEPS} | head -n 1",
        shell=True, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=environment({"TOMBOLA_BUILD": str(BUILD), **mark}))
    assert not marked(mark)


def test_kill_9_leaves_no_server(quickstart):
    started = quickstart("--rows", ROWS, "--steps", 10**9)
    started.wait_for("worker-0.log")
    started.process.kill()
    started.process.wait()
    deadline = time.monotonic() + PATIENCE_S
    while started.left_running():
        assert time.monotonic() < deadline, started.left_running()
        time.sleep(0.05)
