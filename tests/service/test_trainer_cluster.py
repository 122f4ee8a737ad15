# SPDX-License-Identifier: MIT
"""The processes of a training: TF_CONFIG, the flags of the classic programs, and tf-config."""

import json
import re
import subprocess

import pytest

from conftest import environment, run, run_fails
from test_trainer import served, store, train  # noqa: F401 (the fixtures)

FLAGS = ["--ps_hosts=p:1", "--worker_hosts=a:1,b:1", "--job_name=worker", "--task_index=1"]
CLUSTER = {"ps": ["p:1"], "worker": ["a:1", "b:1"]}


def train_fails(*words, says, **variables):
    """Clusters are read before anything is opened."""
    run_fails("trainer", "train", "--sampler", "http://127.0.0.1:1", "--store", "range:1", "--logdir", "/nonexistent",
              *words, says=says, env=variables)


def tf_config(kind, index, cluster=None):
    return json.dumps({"cluster": cluster or CLUSTER, "task": {"type": kind, "index": index}})


# ---- train ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [
    "", "{}",
    '{"cluster": {}, "task": {"type": "worker", "index": 0}, "environment": "cloud"}',
    '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": "0"}}',
])
def test_one_process_trains_alone(served, store, tmp_path, text):
    train(served, store, tmp_path / "run", env={"TF_CONFIG": text}, train_steps=5)


def test_empty_flags_are_no_flags(served, store, tmp_path):
    train(served, store, tmp_path / "run", train_steps=5, ps_hosts="", worker_hosts="", job_name="", task_index=0)


@pytest.mark.parametrize("text, says", [
    ("nonsense", "TF_CONFIG"),
    ('{"task": {"type": "ps", "index": 0}}', 'If "cluster" is not set in TF_CONFIG, task type must be WORKER'),
    (tf_config("worker", 2), "2 is not a valid task_id for task_type worker"),
    (tf_config("worker", 0, {"chief": ["a:1"], "master": ["b:1"]}), "job `chief` is not supported"),
])
def test_a_wrong_tf_config_is_refused(text, says):
    train_fails(says=says, TF_CONFIG=text)


@pytest.mark.parametrize("cluster", [{"worker": {}, "ps": ["p:1"]}, {"worker": {}, "ps": {"1": "p:1"}}])
def test_a_server_that_sees_itself_alone_is_refused(cluster):
    """As Kubeflow's enableDynamicWorker shows a TFJob's second ps, which then died of a null pointer."""
    train_fails(says=["ps 1 sees 1 of the parameter servers in TF_CONFIG", "enableDynamicWorker"], TF_CONFIG=tf_config("ps", 1, cluster))


def test_wrong_flags_are_refused():
    train_fails(*FLAGS[:2], says="Must specify an explicit `job_name`")
    train_fails(*FLAGS[:3], says="Must specify an explicit `task_index`")
    assert "default 0)" not in re.search(r"--task-index N.*?--bad-rows", run("trainer", "train", "--help").stdout, re.DOTALL).group()
    train_fails("--ps-hosts", "p", *FLAGS[2:], says=["--ps-hosts", "HOST:PORT"])
    train_fails("--task-index", 3, says="there is no cluster")
    train_fails(*FLAGS[2:], "--worker-hosts", "a:1", says="1 is not a valid task_id", TOMBOLA_PS_HOSTS="p:1")
    train_fails("--issync", 1, says=["unknown option", "--sync"])


def test_both_have_to_agree():
    train_fails(*FLAGS, says=["TF_CONFIG", "--job-name", "worker 1", "worker 0"], TF_CONFIG=tf_config("worker", 0))
    train_fails(*FLAGS, says=["TF_CONFIG", "--worker-hosts", "worker 1 at b:1", "worker 1 at c:1"],
                TF_CONFIG=tf_config("worker", 1, {"ps": ["p:1"], "worker": ["a:1", "c:1"]}))


# ---- tf-config -----------------------------------------------------------------------------------------


def shell(variable):
    """TF_CONFIG as a program gets it that a shell starts."""
    done = subprocess.run(["sh", "-c", f"{variable} printenv TF_CONFIG"], env=environment(), stdout=subprocess.PIPE,
                          text=True, check=True)
    return json.loads(done.stdout)


def test_four_nodes_of_two_tasks_each():
    nodes = [f"10.0.0.{i}" for i in range(4)]
    lines = run("trainer", "tf-config", "--nodes", ",".join(nodes)).stdout.splitlines()
    tasks = [(line.split(" ", 1)[0], shell(line.split(" ", 1)[1])) for line in lines]
    assert [node for node, _ in tasks] == [node for node in nodes for _ in range(2)]
    assert [config["task"] for _, config in tasks] == [
        {"type": "ps", "index": 0}, {"type": "master", "index": 0}, {"type": "ps", "index": 1}, {"type": "worker", "index": 0},
        {"type": "ps", "index": 2}, {"type": "worker", "index": 1}, {"type": "ps", "index": 3}, {"type": "worker", "index": 2}]
    for _, config in tasks:
        assert config["environment"] == "cloud"
        assert config["cluster"] == {"master": [f"{nodes[0]}:2223"], "ps": [f"{node}:2222" for node in nodes],
                                     "worker": [f"{node}:2223" for node in nodes[1:]]}


def test_ports_and_ipv6():
    lines = run("trainer", "tf-config", "--nodes", "fd00::1,[fd00::2]", "--ps-port", 7, "--worker-port", 8).stdout.splitlines()
    assert [line.split(" ", 1)[0] for line in lines] == ["fd00::1", "fd00::1", "fd00::2", "fd00::2"]
    assert shell(lines[3].split(" ", 1)[1]) == {
        "cluster": {"master": ["[fd00::1]:8"], "ps": ["[fd00::1]:7", "[fd00::2]:7"], "worker": ["[fd00::2]:8"]},
        "task": {"type": "worker", "index": 0}, "environment": "cloud"}


def test_nodes_that_are_none_are_refused():
    run_fails("trainer", "tf-config", says="--nodes")
    run_fails("trainer", "tf-config", "--nodes", "a:1,b:1", says=["--nodes", '"a:1"', "without a port"])
    run_fails("trainer", "tf-config", "--nodes", "a,a", says="the same address")
    run_fails("trainer", "tf-config", "--nodes", "a", "--ps-port", 2223, says="the same address")
    run_fails("trainer", "tf-config", "--nodes", "a", "--ps-port", 0, says="--ps-port")
    done = run_fails("trainer", "tf-config", "--nodes", ",".join(f"{'n' * 50}{i}" for i in range(1200)),
                     says=["1200 nodes", "131072"])
    assert done.stdout == ""
