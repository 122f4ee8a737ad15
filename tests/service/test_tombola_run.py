# SPDX-License-Identifier: MIT
"""`deploy/tombola run` and `deploy/local`: from a table to a model, by one process and by many; what ends them, and what fails."""

import contextlib
import fcntl
import gzip
import json
import os
import random
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, environment, wait_for
from marked import marked, new_mark
from test_trainer import checkpoints

pytestmark = pytest.mark.heavy

SCRIPT = ROOT / "deploy" / "tombola"
QUICK = ["--", "--model", "softmax", "--normalize", "--learning-rate", "0.3"]


@pytest.fixture
def table(tmp_path):
    """Three kinds of flowers that two measurements tell apart."""
    chance = random.Random(7)
    rows = [f"{chance.gauss(2 * (i % 3), 0.3):.3f},{chance.gauss(5 - i % 3, 0.3):.3f},{('setosa', 'versicolor', 'virginica')[i % 3]}"
            for i in range(300)]
    (tmp_path / "flowers.csv").write_text("\n".join(["length,width,species", *rows]) + "\n")
    return tmp_path / "flowers.csv"


@pytest.fixture
def programs(tmp_path):
    """A build folder with nothing but the programs."""
    for name in ("sampler", "loader", "trainer"):
        (tmp_path / "build" / name).mkdir(parents=True)
        (tmp_path / "build" / name / f"tombola-{name}").symlink_to(BUILD / name / f"tombola-{name}")
    return tmp_path / "build"


def import_for_ever(programs):
    loader = programs / "loader/tombola-loader"
    loader.unlink()
    loader.write_text("#!/bin/sh\nexec sleep 100000\n")
    loader.chmod(0o755)


TALKS_ON = """#!/usr/bin/python3
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
while sys.argv[1] == "serve":
    asked, _ = listener.accept()
    try:
        asked.recv(4096)
        asked.sendall(b"HTTP/1.1 400 No\\r\\n\\r\\n" + b"x" * (20 << 20))
    except OSError:
        pass
    asked.close()
"""


PORT_TAKEN = """#!/usr/bin/python3
import os, socket, subprocess, sys
job, index = (sys.argv[sys.argv.index(name) + 1] if name in sys.argv else "" for name in ("--job-name", "--task-index"))
if (job, index) != ("{job}", "0"):
    os.execv("{real}", sys.argv)
with open("{taken}", "a+") as taken, socket.socket() as other:
    taken.write("x")
    if taken.tell() <= {times}:
        other.bind(("127.0.0.1", int(sys.argv[sys.argv.index("--{job}-hosts") + 1].partition(",")[0].rpartition(":")[2])))
        other.listen()
        sys.exit(subprocess.call(["{real}", *sys.argv[1:]]))
os.execv("{real}", sys.argv)
"""


def take_port(programs, job, times):
    """Of the first task of this job, as many times as it starts."""
    trainer = programs / "trainer/tombola-trainer"
    text = PORT_TAKEN.format(job=job, times=times, real=trainer.resolve(), taken=programs / "taken")
    trainer.unlink()
    trainer.write_text(text)
    trainer.chmod(0o755)


def started(folder, *words, stdout=subprocess.PIPE, job=False, **more):
    """With the signals of a terminal: what a shell starts in the background has some ignored, and bash traps none of those.
    As a job, in a session of somebody else who can let it go on, or in one of its own."""
    mark = new_mark()
    one = subprocess.Popen(["env", "--default-signal=HUP,INT,QUIT", SCRIPT, "run", *map(str, words)], cwd=folder,
                           env=environment({"TOMBOLA_BUILD": str(BUILD), **mark} | more), text=True, stdout=stdout,
                           stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, start_new_session=not job, preexec_fn=os.setpgrp if job else None)
    one.mark = mark
    return one


def run(folder, *words, status=0, **more):
    one = started(folder, *words, **more)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == status, out + err
    assert status != 0 or is_quiet(err), err
    nobody_is_left(one)
    return out, err


def is_quiet(err):
    """It complains of nothing; on a busy machine what it started may take more than three seconds to end, which it says."""
    return re.fullmatch(r"(tombola: waiting for \S+ \(process \d+\) to end; its log: .*\n)*", err)


def nobody_is_left(one):
    wait_for(lambda: not marked(one.mark), "processes are left")


def accuracy(out):
    return float(re.search(r"evaluate .* accuracy: (\S+)", out)[1])


@pytest.mark.parametrize("words", [[], ["--workers", 2], ["--workers", 2, "--ps", 2]], ids=["alone", "workers", "servers"])
def test_from_a_table_to_a_model(table, words):
    out, _ = run(table.parent, table.name, "--label", "species", "--steps", 200, *words, *QUICK)
    assert accuracy(out) > 0.9
    model = re.search(r"model: (\S+)", out)[1]
    assert (table.parent / model).name == "model.ckpt-200.safetensors" and (table.parent / model).stat().st_size > 0
    rows = int(re.search(r"rows: (\d+)", (table.parent / "flowers.tombola/evaluate.log").read_text())[1])
    assert 0 < rows < 100  # the tenth that was not trained on


@pytest.mark.parametrize("more", [{"TF_CONFIG": json.dumps({"cluster": {"ps": ["nowhere:1"], "worker": ["nowhere:2"]},
                                                            "task": {"type": "worker", "index": 0}})},
                                  {"TOMBOLA_PS_HOSTS": "nowhere:1", "TOMBOLA_WORKER_HOSTS": "nowhere:2"},
                                  {"TOMBOLA_JOB_NAME": "ps", "TOMBOLA_TASK_INDEX": "7", "TOMBOLA_STREAM": "other"}])
@pytest.mark.parametrize("workers", [1, 2])
def test_another_cluster_in_the_environment(table, workers, more):
    """As in a pod of a TFJob, or after `export` for one's own processes."""
    run(table.parent, table.name, "--label", "species", "--steps", 50, "--workers", workers, *QUICK, **more)


@pytest.mark.parametrize("job, words", [("ps", ["--workers", 2, "--ps", 2]), ("worker", ["--workers", 2])])
def test_a_port_that_somebody_takes_meanwhile(table, programs, job, words):
    """All processes get others, and the model is as good."""
    take_port(programs, job, 2)
    out, _ = run(table.parent, table.name, "--label", "species", "--steps", 200, *words, *QUICK, TOMBOLA_BUILD=str(programs))
    assert accuracy(out) > 0.9 and out.count("logs: ") == 3
    assert (programs / "taken").read_text() == "xxx"


def test_ports_that_are_always_taken(table, programs):
    take_port(programs, "ps", 100)
    _, err = run(table.parent, table.name, "--label", "species", "--ps", 1, *QUICK, status=1, TOMBOLA_BUILD=str(programs))
    assert "training failed: ps-0 ended with exit status 1" in err and "the port is in use" in err
    assert (programs / "taken").read_text() == 10 * "x"


def test_a_response_without_end(table, programs):
    """It fills neither the disk nor the terminal."""
    sampler = programs / "sampler/tombola-sampler"
    sampler.unlink()
    sampler.write_text(TALKS_ON)
    sampler.chmod(0o755)
    _, err = run(table.parent, table.name, "--label", "species", *QUICK, status=2, TOMBOLA_BUILD=str(programs))
    assert "there are too few rows to keep a tenth for the test" in err and len(err) < 1 << 20
    assert (table.parent / "flowers.tombola/test-stream").stat().st_size < 1 << 20


OTHERS = {f"TOMBOLA_{name}": value for name, value in {
    "SAMPLER": "http://127.0.0.1:1", "STORE": "csv:nowhere.csv", "TEST_STORE": "csv:nowhere.csv", "FRAME": "nowhere.frame", "SPLIT": "test",
    "LISTEN": "127.0.0.1:1", "CHECKPOINT": "nowhere", "BEST": "1", "STATUS_LISTEN": "127.0.0.1:1", "TOKEN_FILE": "nowhere.json",
    "TLS_CERT": "nowhere.pem", "FORMAT": "json", "LOG_FORMAT": "json", "SIZE": "5", "ROWS": "0:3", "EPOCHS": "1", "P": "2", "RATE": "0.5",
    "CONFIG": "nowhere.json", "MAX_SIZE": "1", "URL": "http://127.0.0.1:1", "TIMEOUT": "0.001", "INIT_FROM": "nowhere", "TEST_EVERY": "3",
    "EARLY_STOPPING": "2", "ACCEPT_LOSS": "9999", "LOG_LEVEL": "error"}.items()}


def test_options_of_others_in_the_environment(table):
    """As in a pod of deploy/k8s, where TOMBOLA_SAMPLER had the test take the rows of that one."""
    out, _ = run(table.parent, table.name, "--label", "species", "--steps", 50, "--workers", 2, "--test", table.name, *QUICK, **OTHERS)
    assert accuracy(out) > 0.5


def test_a_value_may_stand_behind_an_equals_sign(table):
    """As with the programs: --label=species."""
    out, _ = run(table.parent, table.name, "--label=species", "--steps=50", "--workers=2", "--ps=1", "--work=a=b", f"--test={table.name}", *QUICK)
    assert accuracy(out) > 0.5 and (table.parent / "a=b/ps-0.log").exists()
    assert "--ps wants a whole number" in run(table.parent, table.name, "--ps=two", status=2)[1]
    assert "--label wants a value" in run(table.parent, table.name, "--label=", status=2)[1]


def test_its_version_is_that_of_its_programs():
    said = [subprocess.run([program, "--version"], env=environment({"TOMBOLA_BUILD": str(BUILD)}), capture_output=True, text=True,
                           timeout=PATIENCE_S, check=True).stdout for program in (SCRIPT, BUILD / "loader/tombola-loader")]
    assert said[0].splitlines() == [said[1].splitlines()[0].replace("tombola-loader", "tombola")]


def test_it_goes_on_where_it_was_and_fresh_does_not(table):
    run(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK)
    again, _ = run(table.parent, table.name, "--label", "species", "--steps", 100, *QUICK)
    log = (table.parent / "flowers.tombola/worker-0.log").read_text()
    assert "is there" in again and "going on from" in log and "model.ckpt-100" in again
    third, _ = run(table.parent, table.name, "--label", "species", "--steps", 100, *QUICK)
    assert "step 100 was reached before; --steps N goes on" in third and accuracy(third) > 0.5
    run(table.parent, table.name, "--label", "species", "--steps", 50, "--fresh", *QUICK)
    assert "going on from" not in (table.parent / "flowers.tombola/worker-0.log").read_text()


def test_other_rows_do_not_cost_the_model(table):
    words = table.name, "--label", "species", "--steps", 50
    run(table.parent, *words, *QUICK)
    model = table.parent / "flowers.tombola/model/model.ckpt-50.safetensors"
    _, said = run(table.parent, table.name, "--label", "length", "--steps", 50, *QUICK, status=2)
    assert "a model of other rows" in said and "label=species" in said and "--fresh" in said and model.exists()
    table.write_text(table.read_text() + "0,5,setosa\n")
    _, said = run(table.parent, *words, *QUICK, status=2)
    assert "a model of other rows" in said and model.exists()
    out, _ = run(table.parent, *words, "--fresh", *QUICK)
    assert "301 rows" in out


def test_rows_that_a_uri_names_may_change_too(table):
    table.rename(table.with_name("my\\n flowers.csv"))
    words = "csv:my%5Cn flowers.csv?label=species", "--work", "here", "--steps", 50
    run(table.parent, *words, *QUICK)
    table.with_name("my\\n flowers.csv").write_text(table.with_name("my\\n flowers.csv").read_text() + "0,5,setosa\n")
    _, said = run(table.parent, *words, *QUICK, status=2)
    assert "a model of other rows" in said


@pytest.mark.parametrize("name", ["model/net.py", "state/one", "samples.sqlite", "imported"])
def test_a_folder_with_files_of_somebody_else(table, name):
    mine = table.parent / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    for more in ([], ["--fresh"]):
        _, said = run(table.parent, table.name, "--label", "species", "--work", ".", *more, *QUICK, status=2)
        assert f"./{name.partition('/')[0]} is there, and not of `tombola run`" in said and mine.read_text() == "mine"
        assert not (table.parent / "lock").exists()


def test_a_table_that_the_import_would_replace(table):
    run(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK)
    samples = table.parent / "flowers.tombola/samples.sqlite"
    for name in (samples, f"sqlite:{samples}?table=samples", f"sqlite:{samples}?table=samples".replace("flowers.t", "flowers%2Et")):
        _, said = run(table.parent, name, "--work", "flowers.tombola", "--fresh", *QUICK, status=2)
        assert "an import into flowers.tombola replaces" in said and samples.exists()


def test_a_table_of_too_few_rows_to_test_on(table):
    table.write_text("length,species\n1,setosa\n")
    _, said = run(table.parent, table.name, "--label", "species", *QUICK, status=2)
    assert "--test TABLE names others" in said


def test_a_label_that_only_the_test_has(table):
    rows = table.read_text().splitlines()
    table.write_text("\n".join([rows[0], *(f"{line}{i}" for i, line in enumerate(rows[1:]))]) + "\n")
    _, said = run(table.parent, table.name, "--label", "species", "--steps", 50, *QUICK, status=2)
    assert "testing on labels that only the test has (--test TABLE names other rows) failed" in said and "not one of the" in said


def test_what_programs_warn_of_is_seen_without_their_logs(table):
    """A label without a row in the test, and a model that has learnt nothing."""
    table.write_text(table.read_text() + "0,5,rara\n")
    out, _ = run(table.parent, table.name, "--label", "species", "--steps", 200, "--", "--model", "softmax", "--learning-rate", "1e-9")
    assert re.search(r"^  sampler .*\n {24}labels have no unit .* first=rara", out, re.M)
    assert re.search(r"^  train .*\n {24}the loss of the last .*: the model is no better", out, re.M)


def test_rows_kept_for_the_test_or_not_are_other_rows(table):
    """The sampler's state is of the one or of the other, and so is what the model has seen."""
    words = table.name, "--label", "species", "--steps", 50
    run(table.parent, *words, *QUICK)
    _, said = run(table.parent, *words, "--test", table.name, *QUICK, status=2)
    assert "a model of other rows" in said and "--fresh" in said
    run(table.parent, *words, "--test", table.name, "--fresh", *QUICK)
    _, said = run(table.parent, *words, *QUICK, status=2)
    assert "all of them trained on" in said
    run(table.parent, *words, "--fresh", *QUICK)


def test_what_comes_next_can_be_pasted(table):
    table.rename(table.with_name("my flowers.csv"))
    out, _ = run(table.parent, "my flowers.csv", "--label", "species", "--steps", 50, *QUICK)
    (command,) = re.findall("next:  (.*)", out)
    done = subprocess.run(["bash", "-c", command.replace("NEW.csv", "'my flowers.csv'")], cwd=table.parent, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr


def test_what_comes_next_says_how_its_rows_are_written(table):
    """A table without a header, say: its options hold for the next one."""
    table.write_text(table.read_text().partition("\n")[2].replace(",", ";"))
    out, _ = run(table.parent, "flowers.csv?header=no&delimiter=;", "--label", "2", "--steps", 50, *QUICK)
    (command,) = re.findall("next:  (.*)", out)
    assert "'NEW.csv?header=no&delimiter=;&label=2'" in command
    done = subprocess.run(["bash", "-c", command.replace("NEW.csv", table.name)], cwd=table.parent, capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 301, done.stderr


def test_names_that_a_shell_or_a_uri_would_take_apart(table):
    """Of table, column and folder; a line break divides the files of a URI."""
    name, label, work = "a\n'b' ?&=%41$(x);*.csv", 'the\nkind of "it" ?&=%41', "-w\n ?&=%41"
    text = table.read_text().replace("species", '"' + label.replace('"', '""') + '"', 1)
    (table.parent / name).write_text(text)
    out, _ = run(table.parent, name, "--label", label, "--work", work, "--steps", 50, *QUICK)
    assert accuracy(out) > 0.5 and list((table.parent / work / "model").glob("model.ckpt-50.*"))


def test_a_database_whose_name_a_uri_would_take_apart(table):
    """What can be meant by it is one thing, or it says what to give."""
    for name in ("flow?ers.sqlite", "flow?ers=.sqlite"):
        uri = "sqlite:" + name.replace("?", "%3F").replace("=", "%3D")
        subprocess.run([BUILD / "loader/tombola-loader", "import", "csv:flowers.csv?label=species", uri], cwd=table.parent,
                       stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
    words = "--steps", 50, *QUICK
    for name in (["flow?ers.sqlite"], ["flow?ers=.sqlite", "--label", "label"], ["sqlite:flow%3Fers%3D.sqlite", "--work", "here"]):
        out, _ = run(table.parent, *name, *words)
        assert accuracy(out) > 0.5
    _, said = run(table.parent, "flow?ers=.sqlite", *words, status=2)
    assert "KIND:flow%3Fers%3D.sqlite names the file" in said


@pytest.mark.parametrize("name", ["flowers.csv", "csv:flowers.csv"])
def test_without_a_label_it_says_which_it_looked_for(table, name):
    _, said = run(table.parent, name, status=2)
    assert 'names no column; there are "length", "width", "species"' in said and "`label` without --label" in said


@pytest.mark.parametrize("name", ["flowers.tsv", "flowers.tsv.gz", "csv:flowers.csv", "csv:flowers.csv?header=yes",
                                  "csv:flowers.csv?label=species"])
def test_the_label_is_that_of_the_option_or_of_the_uri(table, name):
    """Whatever names the rows: another column, learnt in silence, is a wrong model."""
    tabs = table.read_text().replace(",", "\t").encode()
    table.with_suffix(".tsv").write_bytes(tabs)
    table.with_name("flowers.tsv.gz").write_bytes(gzip.compress(tabs))
    label = [] if "label=" in name else ["--label", "species"]
    out, _ = run(table.parent, name, *label, "--steps", 50, "--work", "here", *QUICK)
    assert accuracy(out) > 0.5 and "300 rows of 2" in out


@pytest.mark.parametrize("name", ["my flowers.csv?header=no", "csv:my%20flowers.csv?header=no", "csv:my flowers.csv?header=no&label=2"])
def test_a_path_with_options_names_its_file_and_the_folder_beside_it(table, name):
    """As the programs take it, and their messages advise: they name a table without a header first, or an empty field."""
    (table.parent / "my flowers.csv").write_text(table.read_text().partition("\n")[2])
    label = [] if "label=" in name else ["--label", "2"]
    out, _ = run(table.parent, name, *label, "--steps", 50, *QUICK)
    assert accuracy(out) > 0.5 and "300 rows of 2" in out and (table.parent / "my flowers.tombola/model").is_dir()


def test_a_table_has_one_name_however_it_is_given(table):
    words = "--label", "species", "--steps", 50, *QUICK
    run(table.parent, table.name, *words)
    for name in (f"csv:{table.name}", f"csv:{table.name}?label=species", f"{table.name}?label=species"):
        out, _ = run(table.parent, name, *(words[2:] if "=" in name else words))
        assert "flowers.tombola/samples.sqlite is there" in out


def test_the_folder_lies_beside_a_table_without_an_ending(table):
    (table.parent / "data.d/flowers.tombola").mkdir(parents=True)
    table.rename(table.parent / "data.d/flowers")
    _, said = run(table.parent, "data.d/flowers", status=2)
    assert "the whole log: data.d/flowers.tombola/import.log" in said


@pytest.mark.parametrize("name, more, says", [("flowers", [], "which kind of store"), ("flowers.csv", [], "names no column"),
                                              ("csv:nowhere.csv", ["--work", "here"], "cannot open nowhere.csv")])
def test_nothing_is_left_of_rows_that_nobody_can_read(table, name, more, says):
    (table.parent / "flowers").write_text(table.read_text())
    before = sorted(table.parent.iterdir())
    _, said = run(table.parent, name, *more, status=2)
    assert says in said and "log" not in said
    assert sorted(table.parent.iterdir()) == before


def test_nothing_is_left_of_an_import_that_was_stopped(table, programs):
    import_for_ever(programs)
    before = sorted(table.parent.iterdir())
    one = started(table.parent, table.name, "--label", "species", TOMBOLA_BUILD=str(programs))
    wait_for((table.parent / "flowers.tombola/import.log").exists, "it imports nothing")
    os.killpg(one.pid, signal.SIGINT)
    _, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 128 + signal.SIGINT and sorted(table.parent.iterdir()) == before, err
    nobody_is_left(one)


def test_a_label_that_the_rows_do_not_have(table):
    subprocess.run([BUILD / "loader/tombola-loader", "import", "csv:flowers.csv?label=species", "sqlite:flowers.sqlite"], cwd=table.parent,
                   stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)
    for name in ("flowers.sqlite", "sqlite:flowers.sqlite", "sqlite:flowers.sqlite?table=samples"):
        _, said = run(table.parent, name, "--label", "length", "--work", "here", status=2)
        assert 'label="length" names no column' in said
    _, said = run(table.parent, "csv:flowers.csv?label=species", "--label", "length", "--work", "here", status=2)
    assert "--label length or the label in csv:flowers.csv?label=species: which?" in said


def test_other_rows_for_the_test(table):
    other = table.parent / "other.csv"
    other.write_text("".join(table.read_text().splitlines(keepends=True)[:31]))
    run(table.parent, table.name, "--label", "species", "--steps", 50, "--test", other, "--work", "here", *QUICK)
    assert "rows: 30\n" in (table.parent / "here/evaluate.log").read_text()


@pytest.mark.parametrize("number, send", [(signal.SIGHUP, os.killpg), (signal.SIGINT, os.killpg), (signal.SIGQUIT, os.killpg),
                                          (signal.SIGTERM, os.kill)])
def test_a_signal_ends_everything_and_nothing_is_lost(table, number, send):
    """From a terminal, which has it for all of them, or for the script alone."""
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, "--ps", 1, *QUICK)
    url = next(found[1] for line in one.stdout if (found := re.search(r"curl (\S+)", line)))

    def trained():
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return json.load(answer)["global_step"]

    step = wait_for(trained, "it never trains")
    send(one.pid, number)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 128 + number, out + err
    assert "stopping what was started" in err
    nobody_is_left(one)
    assert max(checkpoints(table.parent / "flowers.tombola/model")) >= step


def states(one):
    """As the kernel has them, of the script and the processes that it has started, but for who waits to let them go on."""
    found = set()
    for pid, words in marked(one.mark).items():
        with contextlib.suppress(OSError):
            if not words.startswith("sh -c read"):
                found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0])
    return found


@pytest.mark.parametrize("then", ["fg", "fg, often", "kill", "kill -9"])
def test_ctrl_z_stops_all_of_them(table, then):
    """Until the script goes on, however it ends: a shell lets go on what it sends a signal."""
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, *QUICK, job=True)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    for _ in range(30 if "often" in then else 1):
        os.killpg(one.pid, signal.SIGTSTP)
        wait_for(lambda: states(one) == {"T"}, "they go on")
        if then.startswith("fg"):
            os.killpg(one.pid, signal.SIGCONT)
            wait_for(lambda: states(one) and "T" not in states(one), "they do not go on")
    if then == "kill -9":
        one.kill()
    else:
        one.terminate()
        os.killpg(one.pid, signal.SIGCONT)
    _, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == (-signal.SIGKILL if then == "kill -9" else 128 + signal.SIGTERM)
    assert is_quiet(err.replace("tombola: SIGTERM: stopping what was started\n", "")), err
    nobody_is_left(one)


def test_ctrl_z_where_nobody_could_let_it_go_on(table):
    """As the only process of a container: it is as if nothing had been pressed."""
    one = started(table.parent, table.name, "--label", "species", "--steps", 100000, *QUICK)
    log = table.parent / "flowers.tombola/worker-0.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    one.send_signal(signal.SIGTSTP)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 0, out + err
    nobody_is_left(one)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_not_lost_in_a_long_command_substitution(table, number):
    """Bash runs no trap before the command has ended, and may run it never."""
    programs = table.parent / "programs"
    programs.mkdir()
    (programs / "stat").write_text(f"#!/bin/sh\ntouch {table.parent}/asked\nexec sleep 100000\n")
    (programs / "stat").chmod(0o755)
    one = started(table.parent, table.name, "--label", "species", PATH=f"{programs}:{os.environ['PATH']}")
    wait_for((table.parent / "asked").exists, "it never asks for the table's date")
    one.send_signal(number)
    _, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 128 + number, err
    nobody_is_left(one)
    assert not (table.parent / "flowers.tombola").exists()


def test_processes_end_with_a_script_that_is_killed(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, *QUICK)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    one.kill()
    one.communicate(timeout=PATIENCE_S)
    nobody_is_left(one)


@pytest.mark.parametrize("begins", ["steps", "import"])
def test_who_begins_after_the_script_was_killed_ends(table, programs, tmp_path, begins):
    """A busy machine may not have let it say yet that it wants a signal when its parent ends."""
    import_for_ever(programs)
    setpriv = tmp_path / "bin" / "setpriv"
    setpriv.parent.mkdir()
    setpriv.write_text(f"""#!/bin/sh
        if mkdir {tmp_path}/begun 2>/dev/null; then begins=steps script=$PPID; else
            begins=import
            read -r _ _ _ script _ </proc/$PPID/stat
        fi
        if [ $begins = {begins} ]; then
            kill -KILL $script
            while kill -0 $PPID 2>/dev/null; do sleep 0.01; done
            touch {tmp_path}/killed
        fi
        exec {shutil.which('setpriv')} "$@"
        """)
    setpriv.chmod(0o755)
    one = started(table.parent, table.name, TOMBOLA_BUILD=str(programs), PATH=f"{setpriv.parent}:{os.environ['PATH']}")
    assert one.wait(PATIENCE_S) == -signal.SIGKILL  # who outlives it has its terminal
    wait_for((tmp_path / "killed").exists, "nobody outlived it")
    nobody_is_left(one)


def child_of(one, *said):
    """The one process that the script has started with these words among its own."""
    child, = [pid for pid, words in marked(one.mark).items() if f" {' '.join(said)} " in words]
    return child


def test_a_worker_that_is_killed_is_told_and_missed_by_nobody(table):
    log = table.parent / "flowers.tombola/worker-1.log"
    for steps in (30000, 500000):  # who is late finds that the others, or all of them, have made them
        log.unlink(missing_ok=True)
        one = started(table.parent, table.name, "--label", "species", "--steps", steps, "--workers", 2, "--ps", 1, "--fresh", *QUICK)
        wait_for(lambda: log.exists() and "Training begins" in log.read_text() or one.poll() is not None, "it never trains")
        with contextlib.suppress(ValueError, OSError):
            os.kill(child_of(one, "worker", "--task-index", "1"), signal.SIGKILL)
        out, err = one.communicate(timeout=PATIENCE_S)
        assert one.returncode == 0 and is_quiet(err), out + err
        if "worker-1 ended with exit status 137" in out:
            break
    assert "worker-1 ended with exit status 137" in out and f"model.ckpt-{steps}" in out


@pytest.mark.parametrize("servers, victim, name", [
    (0, ["serve"], "the sampler"), (2, ["ps", "--task-index", "1"], "ps-1"), (0, ["worker", "--task-index", "0"], "worker-0")])
def test_who_is_waited_for_and_killed_ends_the_training(table, servers, victim, name):
    """At once: a server that waits for another one would do so for ever, and who waits for rows for their patience."""
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, "--ps", servers, *QUICK,
                  "--patience", 1000000)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    os.kill(child_of(one, *victim), signal.SIGKILL)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 1, out + err
    assert f"training failed: {name} ended with exit status 137" in err and "Killed" not in err
    nobody_is_left(one)


@pytest.mark.parametrize("workers", [1, 2])
def test_servers_that_no_worker_is_left_for_end_the_training(table, workers):
    """They wait for one for ever, and nobody starts one."""
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", workers, "--ps", 1, *QUICK)
    log = table.parent / f"flowers.tombola/worker-{workers - 1}.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    for index in range(workers):
        os.kill(child_of(one, "worker", "--task-index", str(index)), signal.SIGKILL)
    out, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 1, out + err
    assert f"training failed: worker-{workers - 1} ended with exit status 137" in err
    nobody_is_left(one)


def test_steps_that_are_killed_are_told(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, "--workers", 2, *QUICK)
    log = table.parent / "flowers.tombola/worker-1.log"
    wait_for(lambda: log.exists() and "Training begins" in log.read_text(), "it never trains")
    os.kill(int(Path(f"/proc/{one.pid}/task/{one.pid}/children").read_text()), signal.SIGKILL)
    _, err = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 128 + signal.SIGKILL
    assert err == "tombola: the process of the steps ended with exit status 137 (SIGKILL)\n"
    nobody_is_left(one)


def test_a_full_disk_is_told(table, programs):
    """Also where no log can say it, and by a sampler that serves but cannot draw, however late it says so."""
    late = programs / "sampler/tombola-sampler"
    late.unlink()
    late.write_text('#!/bin/sh\n[ "$1" != serve ] || { echo late; sleep 2; }\n'
                    f'exec {BUILD}/sampler/tombola-sampler "$@"\n')
    late.chmod(0o755)
    disk = table.parent / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", disk], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(mounted.stderr)
    try:
        words = table.name, "--label", "species", "--work", disk / "work", "--steps"
        run(table.parent, *words, 50, *QUICK)
        for log in (disk / "work").glob("*.log"):
            log.unlink()
        with contextlib.suppress(OSError), (disk / "filled").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        _, said = run(table.parent, *words, 100, *QUICK, status=1)
        assert "cannot say where it listens" in said and "no space is left on its disk" in said
        os.truncate(disk / "filled", (disk / "filled").stat().st_size - 4096)  # for the log, but not for the state
        _, said = run(table.parent, *words, 100, *QUICK, status=1, TOMBOLA_BUILD=str(programs))
        assert re.search("the sampler is not ready: .*cannot write the state .*No space left on device", said), said
        (disk / "filled").unlink()
        run(table.parent, *words, 100, *QUICK)
        assert "going on from" in (disk / "work/worker-0.log").read_text()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_two_at_once_in_one_folder(table):
    one = started(table.parent, table.name, "--label", "species", "--steps", 1000000000, *QUICK)
    wait_for((table.parent / "flowers.tombola/sampler.log").exists, "it never serves")
    assert "another tombola is at work" in run(table.parent, table.name, "--label", "species", status=2)[1]
    one.terminate()
    one.communicate(timeout=PATIENCE_S)


def test_a_folder_that_cannot_be_written_in(table):
    (table.parent / "here/lock").mkdir(parents=True)
    _, said = run(table.parent, table.name, "--label", "species", "--work", "here", status=1)
    assert said.strip() == "tombola: cannot write in the folder here"


def test_a_table_in_a_folder_that_takes_no_other(table):
    """Data sets are read-only to most: it says what to do."""
    table.with_suffix(".tombola").symlink_to("/proc/none")
    _, said = run(table.parent, table.name, "--label", "species", status=1)
    assert said.strip() == "tombola: cannot make the folder flowers.tombola; --work DIR takes another"


def test_programs_are_those_of_the_build_that_was_named(table, tmp_path):
    done = subprocess.run([ROOT / "deploy" / "tombola", "run", table], env=environment({"TOMBOLA_BUILD": str(tmp_path / "nosuch")}),
                          capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2 and f"there is no {tmp_path}/nosuch/sampler/tombola-sampler" in done.stderr


def test_in_a_clone_it_says_what_builds_its_programs(table):
    """And it does not look for them in deploy."""
    deploy = table.parent / "clone/deploy"
    deploy.mkdir(parents=True)
    for name in ("tombola", "step.sh", "training.sh", "quickstart"):
        shutil.copy(ROOT / "deploy" / name, deploy)
    without = {name: value for name, value in environment().items() if name != "TOMBOLA_BUILD"}
    done = subprocess.run([deploy / "tombola", "run", table], env=without, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert f"there is no {deploy.parent}/build/sampler/tombola-sampler: deploy/quickstart --build-only makes it" in done.stderr


@pytest.mark.parametrize("words, status, says", [
    ([], 2, "which table"), (["."], 2, "no readable file ."), (["nowhere.csv"], 2, "no readable file nowhere.csv"),
    (["flowers.csv", "flowers.csv"], 2, "one table"),
    (["flowers.csv", "--workers", "0"], 2, "--workers"), (["flowers.csv", "--workers", "999", "--ps", "2"], 2, "1000 of both"),
    (["flowers.csv", "--ps", "-1"], 2, "--ps"), (["flowers.csv", "--label"], 2, "--label"),
    (["flowers.csv", "--bogus"], 2, "--bogus"), (["range:1000?labels=10"], 2, "--work"),
    (["flowers.csv", "--label", "kind"], 2, "kind"), (["flowers.csv", "--label", "species", "--", "--model", "forest"], 2, "forest")])
def test_what_fails_says_why(table, words, status, says):
    out, err = run(table.parent, *words, status=status)
    assert says in err and (out + err).count(" ended with ") <= 1, "the same twice"


def test_local(programs):
    """deploy/local is `run` on digits that it draws."""
    done = subprocess.run([ROOT / "deploy" / "local", "--workers", "2", "--ps", "2", "--steps", "300"], capture_output=True, text=True,
                          env=environment({"TOMBOLA_BUILD": str(programs)}), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert accuracy(done.stdout) > 0.5 and f"drew digits in {programs}/local" in done.stdout
    assert {one.name for one in (programs / "local").glob("*.log")} >= {"sampler.log", "ps-0.log", "ps-1.log", "worker-0.log", "worker-1.log"}


def test_local_in_a_folder_whose_name_a_uri_would_take_apart(programs):
    folder = programs.rename(programs.with_name("what? build=%41"))
    (folder / "local").mkdir()
    for name in ("train", "test"):
        (folder / f"local/mnist_{name}.csv").write_text("".join(f"{row % 2},{row % 2},7\n" for row in range(200)))
    done = subprocess.run([ROOT / "deploy" / "local", "--steps", "20"], capture_output=True, text=True,
                          env=environment({"TOMBOLA_BUILD": str(folder)}), timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_drawing_that_is_killed_is_told(programs):
    loader = programs / "loader/tombola-loader"
    loader.unlink()
    loader.write_text("#!/bin/sh\nkill -KILL $$\n")
    loader.chmod(0o755)
    done = subprocess.run([ROOT / "deploy" / "local"], capture_output=True, text=True, env=environment({"TOMBOLA_BUILD": str(programs)}),
                          timeout=PATIENCE_S, check=False)
    assert done.returncode == 128 + signal.SIGKILL
    assert done.stderr == f"local: drawing digits in {programs}/local failed with exit status 137 (SIGKILL)\n"


def test_digits_are_drawn_by_one(programs):
    """The second of two that start at once waits, and takes what the first has drawn."""
    folder = programs / "local"
    folder.mkdir()
    lock = os.open(folder, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)
    with subprocess.Popen([ROOT / "deploy" / "local", "--steps", "20"], env=environment({"TOMBOLA_BUILD": str(programs)}),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as one:
        wait_for(lambda: any(words.startswith(b"flock\0") for words in command_lines(one.pid)), "it does not wait")
        digits = "".join(f"{row % 2},{row % 2},7\n" for row in range(200))
        for name in ("train", "test"):
            (folder / f"mnist_{name}.csv").write_text(digits)
        os.close(lock)
        out, _ = one.communicate(timeout=PATIENCE_S)
    assert one.returncode == 0 and (folder / "mnist_train.csv").read_text() == digits, out


def test_a_disk_that_takes_no_digits(programs):
    (programs / "local/mnist_train.csv").mkdir(parents=True)
    done = subprocess.run([ROOT / "deploy" / "local"], capture_output=True, text=True, env=environment({"TOMBOLA_BUILD": str(programs)}),
                          timeout=PATIENCE_S, check=False)
    assert done.returncode != 0 and f"{programs}/local/mnist_train.csv" in done.stderr and "import" not in done.stdout


def test_drawing_ends_with_a_local_that_is_killed(programs):
    endless = {"TOMBOLA_BUILD": str(programs), "TOMBOLA_ROWS": "100000000"}
    with subprocess.Popen([ROOT / "deploy" / "local"], env=environment(endless), start_new_session=True) as one:
        wait_for(lambda: list((programs / "local").glob("*.tmp.*")), "it draws nothing")
        one.kill()
    wait_for(lambda: not any(f"{programs}/".encode() in words for words in command_lines()), "it draws on")
    assert not (programs / "local/mnist_test.csv").exists()


def command_lines(parent=None):
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if parent is None or f"\nPPid:\t{parent}\n" in path.with_name("status").read_text():
                yield path.read_bytes()
