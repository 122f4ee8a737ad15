# SPDX-License-Identifier: MIT
"""A network that fails between the processes of a cluster: nobody hangs, whoever waits says for whom, each batch counts once."""

import random
import re
import signal
import time

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once, paced  # noqa: F401, fixture
from cluster_network import hosts, proxy, shared_mappings  # noqa: F401, fixtures
from service import LONG, PATIENCE_S, SEED, Sampler, wait_for
from test_cluster_kill import CALM_S, EVENTS, OFTEN
from test_trainer import newest, read_checkpoint, served, store  # noqa: F401, fixtures

REST = 300  # steps that are learnt when all of them have happened
ASYNCHRONOUS = {**ADDITIVE, "save_secs": 0.2, "train_steps": 10**9, "patience": PATIENCE_S}
IN_STEP = {"sync": True, "replicas_to_aggregate": 2, "batch_size": 20, "hidden_units": 8, "save_secs": 0.2, "train_steps": 10**9,
           "patience": PATIENCE_S}


def check_bits(trained, start, served, store, tmp_path, last):  # noqa: F811
    """What a training comes to that nothing has disturbed."""
    calm = Cluster(start, served, store, tmp_path / "calm", servers=1, **{**IN_STEP, "train_steps": last}).start_all().wait()
    assert read_checkpoint(newest(trained.logdir))[1] == read_checkpoint(newest(calm.logdir))[1]


# ---- single connections, through proxies ---------------------------------------------------------------


class Woven(Cluster):
    """A proxy in each connection: `lines` says from which task to which server."""

    def __init__(self, *arguments, proxy, **more):  # noqa: F811
        super().__init__(*arguments, **more)
        self.proxy, self.lines = proxy, {}

    def task(self, job, index, **more):
        kept = list(self.servers)
        for server in range(len(kept)):
            if job == "ps" and (server > 0 or index == 0):
                continue  # its own address, and one that it does not call
            key = f"{job} {index} to {server}"
            if key not in self.lines:
                self.lines[key] = self.proxy(kept[server])
            self.servers[server] = self.lines[key].address
        try:
            return super().task(job, index, **more)
        finally:
            self.servers[:] = kept


def test_a_server_whose_lost_connection_is_still_open_at_server_0(start, paced, store, tmp_path, proxy):  # noqa: F811
    """It comes back before server 0 knows that it was away, with its shard: nothing is lost."""
    trained = Woven(start, paced, store, tmp_path / "run", workers=1, proxy=proxy, **ASYNCHRONOUS).start_all()
    trained.go_on()
    for _ in range(4):
        kept = trained.lines["ps 1 to 0"].lose_callers()
        trained.go_on()
        for one in kept:
            one.close()
    trained.ps[0].wait_for_log("parameter server 1 is back with its shard")
    assert "goes back" not in trained.ps[0].stderr


def test_a_second_server_of_the_same_index_is_told_so(start, paced, store, tmp_path, proxy):  # noqa: F811
    """It may be the first one again, whose machine died: it has some time, and then it is refused. The first goes on."""
    trained = Woven(start, paced, store, tmp_path / "run", workers=1, proxy=proxy, **ASYNCHRONOUS).start_all()
    trained.go_on()
    kept = trained.servers[1]
    trained.servers[1] = "localhost:0"
    trained.servers[1] = Cluster(start, paced, store, tmp_path / "other").servers[1]  # an address of its own
    second = trained.task("ps", 1)
    trained.servers[1] = kept
    second.wait_for_log("waiting for parameter server 0: parameter server 1 is there already")
    trained.go_on()
    trained.workers[0].signal(signal.SIGSTOP)  # ten seconds in which nobody looks at the training
    assert second.wait() == 2 and "parameter server 1 is there already" in second.stderr.splitlines()[-1]
    trained.workers[0].signal(signal.SIGCONT)
    trained.go_on()
    assert "goes back" not in trained.ps[0].stderr


def test_a_server_without_a_shard_is_waited_for_quietly(start, paced, store, tmp_path, proxy):  # noqa: F811
    """It was started again, and server 0 has not noticed yet: nobody can push to it."""
    trained = Woven(start, paced, store, tmp_path / "run", workers=2, proxy=proxy, **ASYNCHRONOUS).start_all()
    trained.go_on()
    line = trained.lines["ps 1 to 0"]
    line.cut()
    trained.ps[1].kill()
    kept = line.lose_callers()
    line.heal()
    trained.start_server(1).wait_for_log("waiting for parameter server 0: parameter server 1 is there already")
    for worker in trained.workers:
        worker.wait_for_log(r"waiting for parameter server 1 \(.*\): it has no parameters of this training yet")
        assert worker.stderr.count("answers again") <= 2, worker.stderr[-3000:]
    for one in kept:
        one.close()
    trained.go_on()
    check_each_batch_once(trained.logdir, paced, store, tmp_path, trained.end_soon(REST))


def disturb_lines(trained, chance):
    """Connections that are lost at both ends or at one, and that carry nothing for a while."""
    open_ends = []
    for _ in range(EVENTS):
        lines = chance.sample(list(trained.lines.values()), chance.choice((1, 1, 2, len(trained.lines))))
        how = chance.choice(("silent", "callers", "silent, then callers"))
        if how != "callers":
            for line in lines:
                line.cut()
            time.sleep(chance.choices((0.02, 0.3, 1.5), OFTEN)[0])
        if how != "silent":
            open_ends += [end for line in lines for end in line.lose_callers()]
        for line in lines:
            line.heal()
        time.sleep(chance.uniform(0, CALM_S))
        while len(open_ends) > 20 or (open_ends and chance.random() < 0.5):
            open_ends.pop(chance.randrange(len(open_ends))).close()
    return open_ends  # some half connections stay for ever


@pytest.mark.heavy
def test_lost_connections_lose_and_repeat_nothing(start, served, store, tmp_path, proxy):  # noqa: F811
    trained = Woven(start, served, store, tmp_path / "run", workers=3, proxy=proxy, **ASYNCHRONOUS).start_all()
    trained.go_on()
    kept = disturb_lines(trained, random.Random(SEED))
    trained.go_on()
    del kept
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(REST))


@pytest.mark.heavy
def test_in_step_they_change_no_bit(start, served, store, tmp_path, proxy):  # noqa: F811
    trained = Woven(start, served, store, tmp_path / "run", workers=3, proxy=proxy, **IN_STEP).start_all()
    trained.go_on()
    kept = disturb_lines(trained, random.Random(SEED + 1))
    trained.go_on()
    del kept
    check_bits(trained, start, served, store, tmp_path, trained.end_soon(REST))


# ---- hosts, by networks of their own --------------------------------------------------------------------


class Spread(Cluster):
    """The sampler on host 0, server i on host i + 1; worker 0 beside server 0, each other worker on a host of its own."""

    def __init__(self, start, store, logdir, hosts, folder, workers=3, network="IPv4", **chosen):  # noqa: F811
        self.places = hosts(2 + workers, network)
        self.sampler = Sampler("--store", store, "--seed", 7, "--allow-anonymous", folder=folder, listen=f"{self.places.address(0)}:0",
                               prefix=self.places.prefix(0))
        super().__init__(start, self.sampler, store, logdir, workers=workers, **chosen)
        self.servers = [f"{self.places.address(self.host_of('ps', index))}:2222" for index in range(2)]
        self.hosts = [f"{self.places.address(self.host_of('worker', index))}:2223" for index in range(workers)]

    @staticmethod
    def host_of(job, index):
        return index + 1 if job == "ps" or index == 0 else index + 2

    def task(self, job, index, **more):
        return super().task(job, index, prefix=self.places.prefix(self.host_of(job, index)), ps_transport="auto", **more)


@pytest.fixture
def spread(start, store, hosts, tmp_path):  # noqa: F811
    """spread(...) -> Spread that trains, some of it."""
    made = []

    def make(**chosen):
        made.append(Spread(start, store, tmp_path / "run", hosts, tmp_path, **chosen).start_all())
        made[-1].go_on()
        return made[-1]

    yield make
    for one in made:
        for process in [*one.ps, *one.workers]:
            if process.process.poll() is None:
                process.kill()
        one.sampler.finish()


@pytest.mark.parametrize("network", ["IPv4", "IPv6"])
def test_memory_is_shared_on_one_host_and_never_between_two(spread, network):
    trained = spread(network=network, **ASYNCHRONOUS)
    everybody = [*trained.ps, *trained.workers]
    for one in trained.workers:  # a checkpoint may come before the last of them has begun
        wait_for(lambda who=one: "step" in who.stderr, f"{one.name} does not train")
    wait_for(lambda: [shared_mappings(one) for one in everybody] == [1, 0, 1, 0, 0], "not who is on one host, or others")


def says(one, pattern, since):
    """It has written such a line after what it had written by `since`, or it does."""
    wait_for(lambda: re.search(pattern, one.stderr[since:]), f"{one.name} does not say {pattern!r}\n{one.stderr[-3000:]}")


def test_a_host_that_is_cut_off_is_named_by_who_waits(spread):
    """By the workers, by the other server; and all go on when it is back."""
    trained = spread(**ASYNCHRONOUS)
    everybody = [*trained.ps, *trained.workers]
    for host, who, names in ((2, [trained.ps[0], *trained.workers], "parameter server 1"),
                             (1, [trained.ps[1], *trained.workers[1:]], "parameter server 0"),
                             (0, trained.workers, "the sampler")):
        since = {one: len(one.stderr) for one in everybody}
        trained.places.cut(host)
        for one in who:
            says(one, f"[Ww]aiting for {names}", since[one])
        trained.places.heal(host)
        trained.go_on()
    assert all(one.process.poll() is None for one in everybody)


@pytest.mark.parametrize("index", [0, 1])
def test_a_server_whose_host_dies_starts_on_another(spread, served, store, tmp_path, index):  # noqa: F811
    """Nobody is told that the connections of before are lost."""
    trained = spread(**ASYNCHRONOUS)
    host = trained.host_of("ps", index)
    trained.places.cut(host)
    for one in [trained.ps[index], *(trained.workers[:1] if index == 0 else [])]:
        one.kill()
    trained.places.replace(host)
    trained.start_server(index)
    if index == 0:
        trained.workers[0] = trained.task("worker", 0)
    trained.ps[0].wait_for_log("goes back to the last cut" if index else r"training goes on from step \d+")
    trained.go_on()
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(REST))


def test_hosts_whose_lines_lose_and_delay(spread, served, store, tmp_path):  # noqa: F811
    """One packet of fifty is lost, and 30 KB take a quarter of a second; later all is well again."""
    trained = spread(**ASYNCHRONOUS)
    for host in range(5):
        trained.places.spoil(host, 0.02, "1mbit")
    trained.go_on()
    wait_for(lambda: min(trained.places.lost(host) for host in range(1, 5)) > 0, "a host has lost no packet")
    for host in range(5):
        trained.places.mend(host)
    trained.go_on()
    assert all(one.process.poll() is None for one in [*trained.ps, *trained.workers])
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(REST))


def cut_hosts(trained, chance):
    """Also the sampler's; and, with --long, for so long that connections are given up."""
    for _ in range(EVENTS):
        cut = chance.sample(range(5), chance.choice((1, 1, 1, 2, 5)))
        for host in cut:
            trained.places.cut(host)
        time.sleep(30 if LONG and chance.random() < 0.03 else chance.choices((0.05, 0.5, 2), OFTEN)[0])
        for host in cut:
            trained.places.heal(host)
        time.sleep(chance.uniform(0, CALM_S))
    trained.go_on()


@pytest.mark.heavy
def test_hosts_that_are_cut_off_lose_and_repeat_nothing(spread, served, store, tmp_path):  # noqa: F811
    trained = spread(**ASYNCHRONOUS)
    cut_hosts(trained, random.Random(SEED + 2))
    check_each_batch_once(trained.logdir, served, store, tmp_path, trained.end_soon(REST))


@pytest.mark.heavy
def test_in_step_hosts_that_are_cut_off_change_no_bit(spread, start, served, store, tmp_path):  # noqa: F811
    trained = spread(**IN_STEP)
    cut_hosts(trained, random.Random(SEED + 3))
    check_bits(trained, start, served, store, tmp_path, trained.end_soon(REST))
