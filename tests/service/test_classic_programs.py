# SPDX-License-Identifier: MIT
"""The programs that five tutorials and guides of distributed TensorFlow show, started as they show it, and what they print.

Per program: its processes, its flags or its TF_CONFIG, its model; and its standard output, in a file each.
"""

import json
import re
import shlex
import urllib.request

import pytest

from conftest import PATIENCE_S, free_port, run, run_fails, wait_for
from test_trainer import csv_uri, evaluate, newest, options, read_checkpoint, served, store, test_store, write_line  # noqa: F401, fixtures

STEP = re.compile(r"(\d+\.\d{6}): Worker (\d+): training step (\d+) done \(global step: (\d+)\)")
NUMBER = r"[-+.\de]+"


def localhost(count):
    return [f"localhost:{free_port()}" for _ in range(count)]


class Job:
    """Processes of one command line, each with flags or a TF_CONFIG of its own; `output`: the folder of what they print."""

    def __init__(self, start, words, output):
        self.start, self.words, self.output, self.tasks = start, words, output, {}
        output.mkdir(parents=True, exist_ok=True)

    def add(self, name, *flags, tf_config=None):
        printed = ("sh", "-c", 'exec "$@" >"$0"', self.output / f"{name}.out")
        env = {"TF_CONFIG": tf_config if isinstance(tf_config, str) else json.dumps(tf_config)} if tf_config else None
        self.tasks[name] = self.start("trainer", *self.words, *flags, env=env, prefix=printed)

    def add_flags(self, hosts):
        """A process for each task of {"ps": [...], "worker": [...]}, with the flags that the tutorials give it."""
        lists = [f"--{job}_hosts={','.join(tasks)}" for job, tasks in hosts.items() if tasks]
        for job, tasks in hosts.items():
            for index in range(len(tasks)):
                self.add(f"{job}-{index}", *lists, f"--job_name={job}", f"--task_index={index}")
        return self

    def add_cluster(self, cluster):
        """The same by TF_CONFIG, as an operator of TFJobs writes it."""
        for job, tasks in cluster.items():
            for index in range(len(tasks)):
                task = {"cluster": cluster, "task": {"type": job, "index": index}, "environment": "cloud"}
                self.add(f"{job}-{index}", tf_config=task)
        return self

    def wait(self):
        """Everybody ends by itself, with 0; parameter servers too."""
        for name, task in self.tasks.items():
            assert task.wait() == 0, f"{name}: {task.stderr[-4000:]}"
        return self

    def printed(self, name):
        return (self.output / f"{name}.out").read_text().splitlines()

    def steps(self, name):
        """[(local step, global step)] as it printed them."""
        found = [STEP.fullmatch(line) for line in self.printed(name)]
        return [(int(one[3]), int(one[4])) for one in found if one]


def in_time(job, names):
    """Those that came before the others had made all steps: on a busy machine one may not."""
    return [name for name in names if job.steps(name)]


def check_steps(job, names, first, last):
    """Each counts its own steps, global ones go up, and all of them together make the total."""
    made = set()
    for name in names:
        steps = job.steps(name)
        local, global_steps = [one for one, _ in steps], [one for _, one in steps]
        assert local == list(range(1, len(steps) + 1)) and global_steps == sorted(set(global_steps)), name
        made.update(global_steps)
    assert made == set(range(first, last + 1))


def check_lines(lines, worker, is_chief):
    """What the MLP's program prints, in its order; then what the softmax program ends with."""
    text = "\n".join(lines) + "\n"
    test = f"acc: {NUMBER}\ncross entropy = {NUMBER}\n"
    begin = f"Worker {worker}: " + ("Initializing session..." if is_chief else "Waiting for session to be initialized...")
    step = rf"\d+\.\d{{6}}: Worker {worker}: training step \d+ done \(global step: \d+\)\n"
    assert re.fullmatch(
        rf"{begin}\nWorker {worker}: Session initialization complete\.\nTraining begins @ \d+\.\d{{6}}\n"
        rf"(?:{step}(?:{test})?)*Training ends @ \d+\.\d{{6}}\nTraining elapsed time: \d+\.\d{{6}} s\n"
        rf"{test}done\.\naccuracy: \d\.\d{{6}}\n", text), f"{text[:1500]}\n...\n{text[-1500:]}"


def accuracy(lines):
    return float(lines[-1].removeprefix("accuracy: "))


# ---- D1: softmax, two parameter servers and two workers, Supervisor -------------------------------------

SOFTMAX = {"model": "softmax", "hidden_units": None, "optimizer": "adagrad", "learning_rate": 0.01, "batch_size": 100,
           "save_secs": 600, "test_every": 0}


def test_softmax_of_the_supervisor_restores(start, served, store, test_store, tmp_path):  # noqa: F811
    """Two runs into one logdir: the second restores, and ends at the step that both make together."""
    hosts = {"ps": localhost(2), "worker": localhost(2)}
    for first, last in ((1, 1000), (1001, 2000)):
        words = options(served, store, tmp_path / "opt", test_store=test_store, **{**SOFTMAX, "train_steps": last})
        job = Job(start, words, tmp_path / f"until-{last}").add_flags(hosts).wait()
        check_steps(job, ("worker-0", "worker-1"), first, last)
        assert read_checkpoint(newest(tmp_path / "opt"))[1]["global_step"][1] == (last,)
        for name in in_time(job, ("worker-0", "worker-1")):
            lines = job.printed(name)
            check_lines(lines, int(name[-1]), is_chief=name == "worker-0")
            assert accuracy(lines) > 0.6
        assert job.printed("ps-0") == job.printed("ps-1") == []
    assert "model.ckpt-1000.safetensors has step 1000 of 2000: going on from there" in job.tasks["ps-0"].stderr
    again = Job(start, words, tmp_path / "again").add_flags({"ps": hosts["ps"], "worker": []})
    assert again.wait().printed("ps-0") == [] and "nothing is left to train" in again.tasks["ps-0"].stderr


# ---- D2: the MLP, two parameter servers and any number of workers ----------------------------------------

MLP = {"model": "mlp", "hidden_units": 100, "batch_size": 100, "optimizer": "adagrad", "learning_rate": 0.01, "test_every": 100}


def train_mlp(start, served, store, test_store, tmp_path, workers, steps):  # noqa: F811
    words = options(served, store, tmp_path / "datanfs", test_store=test_store, **{**MLP, "train_steps": steps})
    job = Job(start, words, tmp_path / "logs").add_flags({"ps": localhost(2), "worker": localhost(workers)}).wait()
    names = [f"worker-{index}" for index in range(workers)]
    check_steps(job, names, 1, steps)
    tests = 0
    names = in_time(job, names)
    for name in names:
        check_lines(job.printed(name), int(name[-1]), is_chief=name == "worker-0")
        tests += sum(line.startswith("acc: ") for line in job.printed(name)) - 1
    assert tests > 0, "nobody tested while it trained"
    return evaluate(test_store, tmp_path / "datanfs"), [accuracy(job.printed(name)) for name in names]


def test_mlp_with_three_workers(start, served, store, test_store, tmp_path):  # noqa: F811
    """The last test of every worker is that of the checkpoint: all of them have the last values."""
    expected, printed = train_mlp(start, served, store, test_store, tmp_path, workers=3, steps=600)
    assert printed == pytest.approx([expected] * len(printed), abs=1e-6) and expected > 0.75


@pytest.mark.heavy
def test_mlp_of_ten_thousand_steps(start, sampler, store, test_store, tmp_path):
    """The first rows are for validation, and nobody trains on them."""
    served = sampler("--store", store, "--seed", 7, "--rows", "200:2000")  # noqa: F811
    expected, printed = train_mlp(start, served, store, test_store, tmp_path, workers=2, steps=10000)
    assert printed == pytest.approx([expected] * len(printed), abs=1e-6) and expected > 0.85


# ---- D4: two worker servers and a client that is no member of the cluster ---------------------------------


def status_of(host):
    with urllib.request.urlopen(f"http://{host}/status", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def predicted(logdir, tmp_path):
    """What the model of now answers to 0 and 1; None before the first checkpoint."""
    (tmp_path / "new.csv").write_text("x\n0\n1\n")
    done = run("trainer", "predict", "--store", f"csv:{tmp_path}/new.csv", "--logdir", logdir, status=None)
    return [float(line.split(",")[2]) for line in done.stdout.splitlines()[1:]] if done.returncode == 0 else None


def test_a_client_outside_of_the_cluster_reads_a_line(start, sampler, tmp_path):
    """Slope 2 and intercept 10. The servers join for ever; the client needs an address and the logdir, no part in the cluster."""
    line = write_line(tmp_path / "line.csv", 1000)
    served = sampler("--store", line, "--design", "srs", "--seed", 1)  # noqa: F811
    words = options(served, line, tmp_path / "run", model="linear", hidden_units=None, optimizer="sgd", learning_rate=0.3,
                    batch_size=50, train_steps=10**9, print_every=0, save_secs=0.05)
    hosts = localhost(2)
    job = Job(start, words, tmp_path / "logs").add_flags({"ps": [], "worker": hosts})
    job.tasks["worker-0"].wait_for_log("training goes on")
    wait_for(lambda: len(status_of(hosts[0])["workers"]) == 2, "not both workers are there")
    wait_for(lambda: predicted(tmp_path / "run", tmp_path) == pytest.approx([10, 12], abs=0.02), "the line is not found")
    wait_for(lambda: status_of(hosts[0]).get("saved_step", 0) > 0, "the status knows of no checkpoint")
    now = status_of(hosts[0])
    assert now["phase"] == "running" and now["saved_step"] <= now["global_step"] < now["train_steps"] == 10**9
    for name in ("worker-1", "worker-0"):
        job.tasks[name].stop(status=143)
    tensors = read_checkpoint(newest(tmp_path / "run"))[1]
    assert (tensors["w"][1][0], tensors["b"][1][0]) == pytest.approx((2, 10), abs=0.02)


# ---- D0: master, parameter server and workers of a TFJob, by TF_CONFIG -------------------------------------


def test_master_and_workers_of_a_job(start, served, store, test_store, tmp_path):  # noqa: F811
    cluster = {"master": localhost(1), "ps": localhost(1), "worker": localhost(2)}
    words = options(served, store, tmp_path / "run", test_store=test_store, **{**MLP, "train_steps": 400})
    job = Job(start, words, tmp_path / "logs").add_cluster(cluster).wait()
    check_steps(job, ("master-0", "worker-0", "worker-1"), 1, 400)
    for name in in_time(job, job.tasks):
        check_lines(job.printed(name), int(name[-1]), is_chief=name == "master-0")
    assert not job.steps("master-0") or (tmp_path / "run" / "events.jsonl").exists(), "the master writes summaries"


def check_refused(served, store, logdir, tf_config, says):  # noqa: F811
    """At once, with the status that no operator tries again, and a message that says how it should be."""
    run_fails("trainer", *options(served, store, logdir), env={"TF_CONFIG": json.dumps(tf_config)}, says=says)
    assert not logdir.exists()


@pytest.mark.plain
def test_names_of_replicas_are_none_of_tasks(served, store, tmp_path):  # noqa: F811
    """MASTER is a key of a TFJob; what its operator writes into TF_CONFIG is `master`."""
    check_refused(served, store, tmp_path / "run", {"cluster": {"MASTER": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}},
                  ["MASTER", "master"])
    check_refused(served, store, tmp_path / "run", {"cluster": {"master": ["a:1"], "ps": ["b:1"]}, "task": {"type": "MASTER", "index": 0}},
                  ["MASTER", "master"])


# ---- D3: four nodes, a parameter server and a worker on each; output and logs on shared storage --------------


def shell_words(line):
    """NODE and the TF_CONFIG that a line of tf-config gives it."""
    node, variable = line.split(" ", 1)
    return node, shlex.split(variable)[0].removeprefix("TF_CONFIG=")


def four_nodes():
    """As `tombola-trainer tf-config` writes it, each node an address of loopback: [(node, TF_CONFIG)]."""
    ps_port, worker_port = free_port(), free_port()
    nodes = [f"127.0.0.{number}" for number in range(2, 6)]
    lines = run("trainer", "tf-config", "--nodes", ",".join(nodes), "--ps-port", ps_port, "--worker-port", worker_port).stdout
    return [shell_words(line) for line in lines.splitlines()]


def run_nodes(start, served, store, tmp_path, tasks):  # noqa: F811
    """Everything that the job leaves lies in one folder, the output of each process too."""
    output = tmp_path / "data" / "output"
    words = options(served, store, output, **{**MLP, "train_steps": 500, "print_every": 1})
    job = Job(start, words, output / "logs")
    for node, tf_config in tasks:
        task = json.loads(tf_config)["task"]
        job.add(f"{node}-{task['type']}-{task['index']}", tf_config=tf_config)
    job.wait()
    assert read_checkpoint(newest(output))[1]["global_step"][1] == (500,)
    return job


def test_four_nodes_end_together(start, served, store, tmp_path):  # noqa: F811
    tasks = four_nodes()
    job = run_nodes(start, served, store, tmp_path, tasks)
    assert len(job.tasks) == 8
    check_steps(job, [name for name in job.tasks if "-ps-" not in name], 1, 500)
    output = tmp_path / "data" / "output"
    made = {path.name for path in output.iterdir() if path.is_dir()}
    trained = in_time(job, job.tasks)
    assert {"logs", *(name.split("-", 1)[1] for name in trained if "-worker-" in name)} <= made <= {"logs", "worker-0", "worker-1", "worker-2"}
    if any("-master-" in name for name in trained):
        assert json.loads((output / "events.jsonl").read_text().splitlines()[0])["session"] == "start"


def test_the_guide_s_own_contradiction_trains_all_the_same(start, served, store, tmp_path):  # noqa: F811
    """For ip0 it prints the task of ip1: two workers 0 and no master. An index is no identity."""
    tasks = [(node, text.replace('"type":"master"', '"type":"worker"')) for node, text in four_nodes()]
    assert sum(json.loads(text)["task"] == {"type": "worker", "index": 0} for _, text in tasks) == 2
    job = run_nodes(start, served, store, tmp_path, tasks)
    trainers = [name for name in job.tasks if "-ps-" not in name]
    check_steps(job, trainers, 1, 500)
    for name in trainers:
        assert job.printed(name)[0].endswith("Waiting for session to be initialized...")
    lines = tmp_path / "data" / "output" / "worker-0" / "events.jsonl"
    for line in lines.read_text().splitlines() if lines.exists() else ():  # else both came too late
        json.loads(line)  # of two writers, and none broken
