# SPDX-License-Identifier: MIT
"""Workers and parameter servers on one machine: the classic job (784-100-10, batch 100, Adagrad 0.01, summed loss)
beside TensorFlow's parameter servers, torch RPC as one, and DDP; where there are GPUs and NCCL, the same in step from
GPU to GPU; a push and its answer beside plain TCP; how long a checkpoint holds them up; and many workers that only
push (thin_worker.c).

Every worker prints when it made a step whose number is a multiple of PRINT_EVERY. A tenth of the steps is left out:
rate and processor time count from then to the end, of all workers, servers and the sampler together.
TOMBOLA_BENCH_DATA=DIR takes DIR/mnist_train.csv and DIR/mnist_test.csv instead of the demo data.
"""
import contextlib
import os
import re
import resource
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import bench
import gpus
from bench import Sample
from bench_trainer import digits

STEPS = bench.choose(10000, 200)
ROWS = bench.choose(20000, 1000)
SECONDS = bench.choose(3, 0.3)  # of thin workers
WORKERS = 2
#: (thin workers, microseconds of a batch): less than one server takes, and far more.
THIN = bench.choose([(workers, batch_us) for batch_us in (10000, 1000) for workers in (10, 30, 64)], [(3, 1000)])
PRINT_EVERY = 20
POLL_S = 0.02
LIMIT_S = 400
TRIES = 3  # of a peer's training that breaks off
ENVIRONMENT = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONWARNINGS": "ignore"}
STEP = re.compile(r"^(\d+\.\d+): Worker \d+: training step \d+ done \(global step: (\d+)\)$", re.M)


def addresses(count):
    return [f"127.0.0.1:{bench.free_port()}" for _ in range(count)]


def started(command, log, **environment):
    with open(log, "w", encoding="utf-8") as out:
        process = bench.start(command, stdout=out, stderr=subprocess.STDOUT, env=ENVIRONMENT | environment)
    process.log = log
    return process


def printed(logs):
    return "\n".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)


def said(process):
    """How it ended, and its last lines."""
    return f"{process.log.stem}, exit status {process.poll()}:\n{printed([process.log])[-1000:]}"


# ---- the classic job ----------------------------------------------------------------------------


class BrokeOff(SystemExit):
    """A training did, for the reason that is told."""


class Training:
    """Processes that train together. Subclasses say the words of one, and how well its model does at the end."""

    sampler = None
    gpus = ()  # one for each worker; none: all compute on processors

    def __init__(self, servers, workers):
        self.servers, self.workers = servers, workers

    def on(self, found):
        """Each worker sees a GPU of its own as the only one."""
        self.gpus = found
        return self

    def environment(self, job, index):
        return {"CUDA_VISIBLE_DEVICES": self.gpus[index]} if self.gpus and job == "worker" else {}

    def start(self, folder):
        hosts = {"ps": addresses(self.servers), "worker": addresses(self.workers)}
        cluster = [f"--{job}_hosts={','.join(listed)}" for job, listed in hosts.items() if listed]
        tasks = [(job, index) for job, listed in hosts.items() for index in range(len(listed))]
        return [started([*self.command(folder), *(cluster if len(tasks) > 1 else []),
                         *([f"--job_name={job}", f"--task_index={index}"] if len(tasks) > 1 else [])],
                        folder / f"{job}-{index}.log", **self.environment(job, index)) for job, index in tasks]

    def steps(self, folder):
        """(time, global step) of each that a worker printed, in the order of time."""
        found = STEP.findall(printed(folder.glob("worker-*.log")))
        return sorted((float(at), int(step)) for at, step in found) or [(0.0, 0)]

    def cpu_seconds(self, processes):
        return sum(bench.cpu_seconds(process.pid) for process in (*processes, *filter(None, [self.sampler])))

    def watch(self, processes, folder):
        """Until the workers have ended: time and processor seconds when a tenth of the steps was made; zeros if all
        was over by then."""
        deadline, begin = time.monotonic() + LIMIT_S, (0.0, 0.0)
        while any(process.poll() is None for process in processes[self.servers:]):
            if any(process.poll() for process in processes) or time.monotonic() > deadline:
                break
            if not begin[0] and self.steps(folder)[-1][1] >= STEPS // 10:
                begin = time.time(), self.cpu_seconds(processes)
            time.sleep(POLL_S)
        if any(process.poll() != 0 for process in processes[self.servers:]):
            why = "\n".join(["the training did not end well:", *map(said, processes)])
            for process in processes:
                bench.stop(process)
            raise BrokeOff(why)
        return begin

    def end(self, processes):
        """TensorFlow's servers stay until they are stopped."""
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.patience_s)
            bench.stop(process)

    def measure(self):
        with bench.folder() as folder:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            processes = self.start(folder)
            begin, begin_cpu = self.watch(processes, folder)
            self.end(processes)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime + self.cpu_seconds([])
            accuracy, steps = self.accuracy(folder), self.steps(folder)
        counted = [step for step in steps if step[0] >= begin]
        seen = begin > 0 and len({step for _, step in counted}) > 1  # a quick training may be over by then
        (first_at, first), *_, (last_at, last) = counted if seen else steps
        cpu_us = 1e6 * (spent - begin_cpu) / (last - first) if seen else None
        return Sample((last - first) / (last_at - first_at), cpu_us, (accuracy,))


class Ours(Training):
    patience_s = bench.PATIENCE_S

    def __init__(self, sampler, store, test_store, servers, workers, *options):
        super().__init__(servers, workers)
        self.sampler, self.store, self.test_store, self.options = sampler.process, store, test_store, options
        self.url = sampler.url

    def command(self, folder):
        return job_words(self.url, self.store, folder / "run", STEPS, "--print_every", PRINT_EVERY, *self.options)

    def accuracy(self, folder):
        text, _ = bench.measured([bench.TRAINER, "evaluate", "--store", self.test_store, "--logdir", folder / "run",
                                  "--log_level", "error"])
        return float(re.search(r"^accuracy: (\S+)", text, re.M)[1])


def job_words(url, store, logdir, steps, *options):
    return [bench.TRAINER, "train", "--sampler", url, "--store", store, "--logdir", logdir, "--model", "mlp",
            "--hidden_units", "100", "--optimizer", "adagrad", "--learning_rate", "0.01", "--batch_size", "100",
            "--train_steps", steps, "--seed", "1", *options]


class Theirs(Training):
    """peer_cluster.py's."""

    patience_s = 1
    broke_off = 0  # times

    def __init__(self, kind, module, folder, servers, workers):
        super().__init__(servers, workers)
        self.words = [bench.python_with(module), Path(__file__).with_name("peer_cluster.py"), kind, "--data", folder,
                      "--rows", ROWS, "--steps", STEPS, "--print_every", PRINT_EVERY]

    def measure(self):
        """TensorFlow's now and then breaks off in the middle; a peer gets another chance, one of ours none."""
        while True:
            try:
                return super().measure()
            except BrokeOff as why:
                self.broke_off += 1
                if self.broke_off == TRIES:
                    raise
                print(why, file=sys.stderr)

    def command(self, folder):
        return [*self.words, "--logdir", folder / "run"]

    def accuracy(self, folder):
        return float(re.search(r"^accuracy: (\S+)", printed([folder / "worker-0.log"]), re.M)[1])


def contestants(sampler, csv, database):
    """(the cluster, by whom) -> a Training."""
    stores = f"sqlite:{database}", f"csv:{csv.with_name('mnist_test.csv')}?label=0&header=no"
    ours = lambda *words: Ours(sampler, *stores, *words)
    found = {("one process", "Tombola"): ours(0, 1)}
    for servers in (1, 2):
        cluster = f"{servers} ps, {WORKERS} workers"
        for transport in ("auto", "tcp"):
            found[cluster, f"Tombola, {transport}"] = ours(servers, WORKERS, "--ps_transport", transport)
        if bench.python_with("tensorflow") and servers <= bench.choose(2, 1):
            found[cluster, "TensorFlow"] = Theirs("tensorflow", "tensorflow", csv.parent, servers, WORKERS)
        if bench.python_with("torch") and servers <= bench.choose(2, 1):
            found[cluster, "torch RPC"] = Theirs("rpc", "torch", csv.parent, servers, WORKERS)
    found[f"in step, {WORKERS} workers", "Tombola, 1 ps"] = ours(1, WORKERS, "--sync")
    if bench.python_with("torch"):
        found[f"in step, {WORKERS} workers", "DDP, gloo"] = Theirs("ddp", "torch", csv.parent, 0, WORKERS)
    there, _ = gpus.that_exchange()
    if there:
        cluster, count = f"in step, {len(there)} GPUs", len(there)
        for exchange in ("nccl", "servers"):
            found[cluster, f"Tombola, {exchange}"] = ours(1, count, "--sync", "--exchange", exchange).on(there)
        if bench.python_with("torch"):
            found[cluster, "DDP, nccl"] = Theirs("ddp_nccl", "torch", csv.parent, 0, count).on(there)
    return found


def measure_trainings(sampler, csv, database):
    entries = contestants(sampler, csv, database)
    results = bench.in_turn({key: entry.measure for key, entry in entries.items()})
    lines = []
    for cluster in dict.fromkeys(cluster for cluster, _ in results):
        lines += bench.rows({name: samples for (of, name), samples in results.items() if of == cluster}, [cluster])
    bench.table(f"The classic job, {STEPS:,} global steps", [
        "cluster", "by", "steps/s", "min .. max", "CPU us a step", "accuracy", "CPU ratio", "ratio"], lines, [
        f"{bench.ROUNDS} rounds. Ours pulls from the sampler and fetches, theirs have all {ROWS:,} rows in memory.",
        "A step in common is of a batch of 100 of each worker. Accuracy is that of the model after the last step.",
        *(f"{name} broke off in {cluster} and began anew: {entry.broke_off} times." for (cluster, name), entry in
          entries.items() if isinstance(entry, Theirs) and entry.broke_off),
        *(f"No rows for GPUs that exchange gradients by NCCL: {why}." for why in [gpus.that_exchange()[1]] if why)])


# ---- pushes -------------------------------------------------------------------------------------


class Push(Sample):
    """What a thin worker prints."""

    def __init__(self, text, *facts):
        self.rate, middle, slow, self.staleness = map(float, text.split())
        super().__init__(middle, None, (slow, *facts))


def thin_words(*words):
    return [bench.PROGRAMS / "thin_worker", SECONDS, *words]


@contextlib.contextmanager
def served(sampler, database, folder, count, save_secs=0):
    """Servers of a training without an end, which has begun: (processes, addresses)."""
    hosts, logdir, store = addresses(count), folder / f"run-{count}", f"sqlite:{database}"
    if not logdir.exists():
        bench.measured(job_words(sampler.url, store, logdir, 1), stderr=subprocess.DEVNULL)
    words = [*job_words(sampler.url, store, logdir, 10**12, "--save_secs", save_secs), f"--ps_hosts={','.join(hosts)}"]
    servers = [started([*words, "--job_name=ps", f"--task_index={index}"], folder / f"ps-{index}-of-{count}.log")
               for index in range(count)]
    try:
        for host in hosts:
            bench.wait_for_port(int(host.rpartition(":")[2]))
        yield servers, hosts
    finally:
        for server in servers:
            bench.stop(server)


def measure_pushes(sampler, database, folder):
    def push(*words):
        return Push(bench.measured(thin_words(*words))[0])

    with served(sampler, database, folder, 1) as (_, one), served(sampler, database, folder, 2) as (_, two):
        results = bench.in_turn({"plain TCP": lambda: push("raw"), "Tombola, 1 ps": lambda: push(0, *one),
                                 "Tombola, 2 ps": lambda: push(0, *two)})
    bench.table("A push of 318,040 bytes and its answer of as many", [
        "by", "us", "min .. max", "CPU", "99 %", "CPU ratio", "ratio"], bench.rows(results, best=min), [
        "Plain TCP: a blocking reader and writer, with Adagrad between. Ours by TCP alone."])


# ---- cuts ---------------------------------------------------------------------------------------


def pauses_of(address):
    """Milliseconds that each cut held the training up, while servers and workers train for some seconds."""
    found, end = [], time.monotonic() + 3 * SECONDS
    while time.monotonic() < end or not found:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=bench.PATIENCE_S) as answer:
            pause = re.search(r"^tombola_ps_cut_pause_seconds (\S+)$", answer.read().decode(), re.M)
        if pause and (not found or found[-1] != 1000 * float(pause[1])):
            found.append(1000 * float(pause[1]))
        time.sleep(POLL_S)
    return found


def measure_cuts(sampler, database, folder):
    lines = []
    for count in (1, 2):
        with contextlib.ExitStack() as stack:
            _, hosts = stack.enter_context(served(sampler, database, folder, count, save_secs=0.3))
            words = [*job_words(sampler.url, f"sqlite:{database}", folder / f"run-{count}", 10**12, "--print_every", 0),
                     f"--ps_hosts={','.join(hosts)}", "--job_name=worker"]
            for index in range(WORKERS):
                worker = started([*words, f"--task_index={index}"], folder / f"worker-{index}-of-{count}.log")
                stack.callback(bench.stop, worker)
            pauses = sorted(pauses_of(hosts[0]))
        lines.append([f"{count} ps, {WORKERS} workers", len(pauses), bench.median(pauses), pauses[-1]])
    bench.table("How long a checkpoint holds a training of 79,510 parameters up", ["cluster", "cuts", "ms", "max"], lines)


def push_together(servers, hosts, count, batch_us):
    """[batches a second, staleness, middle and slowest percent of a push in us, busy servers] of all together."""
    before, begin = sum(bench.cpu_seconds(server.pid) for server in servers), time.monotonic()
    workers = [bench.start(thin_words(batch_us, *hosts), stdout=subprocess.PIPE, text=True) for _ in range(count)]
    pushes = [Push(worker.communicate(timeout=bench.PATIENCE_S)[0]) for worker in workers]
    busy = (sum(bench.cpu_seconds(server.pid) for server in servers) - before) / (time.monotonic() - begin)
    together = sum(push.rate for push in pushes)
    return [together, sum(push.rate * push.staleness for push in pushes) / together,
            bench.median([push.value for push in pushes]), bench.median([push.facts[0] for push in pushes]), busy]


def measure_thin_workers(sampler, database, folder):
    lines = []
    with served(sampler, database, folder, 1) as (servers, hosts):
        results = bench.in_turn({(count, batch_us): lambda of=(count, batch_us): push_together(servers, hosts, *of)
                                 for count, batch_us in THIN})
    for (count, batch_us), rounds in results.items():
        rates = [found[0] for found in rounds]
        lines.append([count, batch_us, count * 10**6 // batch_us, bench.median(rates), bench.spread(rates),
                      *(bench.median(column) for column in list(zip(*rounds))[1:])])
    head = ["workers", "us a batch", "at most", "batches/s", "min .. max", "staleness", "push, us", "99 %", "busy"]
    bench.table("Thin workers and 1 ps", head, lines, [
        f"At most: if a push took no time. Busy: processors of {len(bench.CPUS)} that the server took; workers copy as "
        "many bytes as it does."])


def measure():
    csv, database = digits()
    with bench.folder() as folder, bench.Sampler("--store", f"csv:{csv}?label=0&header=no", "--seed", "1", "--rows",
                                                 f"0:{ROWS}") as sampler:
        measure_trainings(sampler, csv, database)
        measure_pushes(sampler, database, folder)
        measure_cuts(sampler, database, folder)
        measure_thin_workers(sampler, database, folder)


if __name__ == "__main__":
    bench.main(measure)
