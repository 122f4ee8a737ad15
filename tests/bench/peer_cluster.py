# SPDX-License-Identifier: MIT
"""The classic job of bench_cluster.py by processes of a peer: 784-100-10, batches of 100, Adagrad 0.01, the loss summed
over a batch, all rows in memory as floats. Workers print their steps in our words, and worker 0 the accuracy.

    peer_cluster.py KIND --job_name ps|worker --task_index N --ps_hosts LIST --worker_hosts LIST ...

    tensorflow  the tutorials' program: tf.compat.v1, replica_device_setter, Supervisor; asynchronous
    rpc         PyTorch with parameter servers behind torch.distributed.rpc: a gradient there, the values back
    ddp         PyTorch's DistributedDataParallel over gloo; a step takes a batch of each worker
    ddp_nccl    the same over NCCL, each worker on the one GPU that it sees

A worker of PyTorch's has one thread, since there are as many of them as processors; TensorFlow takes its own choice.
"""
import argparse
import os
import threading
import time
from pathlib import Path

import numpy

BATCH, RATE, START = 100, 0.01, 0.1
options = None


def loaded(name, rows=None):
    data = numpy.loadtxt(options.data / name, delimiter=",", dtype=numpy.float32, max_rows=rows)
    return data[:, 1:] / 255, data[:, 0].astype(numpy.int64)


def batches(x, y):
    """For ever; rows are shuffled for each epoch."""
    dice = numpy.random.default_rng(options.task_index)
    while True:
        for part in dice.permutation(len(x)).reshape(-1, BATCH):
            yield x[part], y[part]


def train(step, x, y):
    """`step` learns from a batch and returns the global step."""
    made = done = 0
    for batch in batches(x, y):
        if done >= options.steps:
            return
        done = step(*batch)
        made += 1
        if done % options.print_every == 0:
            print(f"{time.time():f}: Worker {options.task_index}: training step {made} done (global step: {done})",
                  flush=True)


def end(accuracy):
    """What a framework tears down is not measured."""
    if options.task_index == 0:
        print(f"accuracy: {accuracy():f}", flush=True)
    os._exit(0)


# ---- TensorFlow ---------------------------------------------------------------------------------


def tensorflow():
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    cluster = tf.train.ClusterSpec({"ps": options.ps_hosts, "worker": options.worker_hosts})
    server = tf.train.Server(cluster, job_name=options.job_name, task_index=options.task_index)
    if options.job_name == "ps":
        server.join()
    with tf.device(tf.train.replica_device_setter(worker_device=f"/job:worker/task:{options.task_index}",
                                                  ps_device="/job:ps/cpu:0", cluster=cluster)):
        step = tf.Variable(0, name="global_step", trainable=False)
        hid_w = tf.Variable(tf.truncated_normal([784, 100], stddev=1 / 28), name="hid_w")
        hid_b = tf.Variable(tf.zeros([100]), name="hid_b")
        sm_w = tf.Variable(tf.truncated_normal([100, 10], stddev=0.1), name="sm_w")
        sm_b = tf.Variable(tf.zeros([10]), name="sm_b")
        x, labels = tf.placeholder(tf.float32, [None, 784]), tf.placeholder(tf.float32, [None, 10])
        scores = tf.nn.softmax(tf.nn.xw_plus_b(tf.nn.relu(tf.nn.xw_plus_b(x, hid_w, hid_b)), sm_w, sm_b))
        loss = -tf.reduce_sum(labels * tf.log(tf.clip_by_value(scores, 1e-10, 1.0)))
        learn = tf.train.AdagradOptimizer(RATE).minimize(loss, global_step=step)
    supervisor = tf.train.Supervisor(is_chief=options.task_index == 0, logdir=str(options.logdir), global_step=step,
                                     init_op=tf.global_variables_initializer(), recovery_wait_secs=1)
    config = tf.ConfigProto(allow_soft_placement=True,
                            device_filters=["/job:ps", f"/job:worker/task:{options.task_index}"])
    one_hot, (rows, classes) = numpy.eye(10, dtype=numpy.float32), loaded("mnist_train.csv", options.rows)
    test_x, test_y = loaded("mnist_test.csv")
    with supervisor.managed_session(server.target, config=config) as session:
        train(lambda x_, y_: int(session.run([learn, step], {x: x_, labels: y_})[1]), rows, one_hot[classes])
        end(lambda: (session.run(scores, {x: test_x}).argmax(1) == test_y).mean())


# ---- PyTorch ------------------------------------------------------------------------------------


def torch_model():
    import torch
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(1)  # every worker begins with the same values
    model = torch.nn.Sequential(torch.nn.Linear(784, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    return torch, model, torch.nn.CrossEntropyLoss(reduction="sum")


def adagrad(torch, parameters):
    return torch.optim.Adagrad(parameters, lr=RATE, initial_accumulator_value=START, fused=True)


def torch_accuracy(torch, model):
    x, y = map(torch.from_numpy, loaded("mnist_test.csv"))
    return (model(x).argmax(1) == y).float().mean().item()


def batched(torch, step):
    return lambda x, y: step(torch.from_numpy(x), torch.from_numpy(y))


def ddp(backend="gloo", device="cpu"):
    torch, model, criterion = torch_model()
    model.to(device)
    torch.distributed.init_process_group(backend, init_method=f"tcp://{options.worker_hosts[0]}",
                                         rank=options.task_index, world_size=len(options.worker_hosts))
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    optimizer, done = adagrad(torch, model.parameters()), 0

    def step(x, y):
        nonlocal done
        optimizer.zero_grad()
        criterion(parallel(x.to(device)), y.to(device)).backward()
        optimizer.step()
        done += 1
        return done

    train(batched(torch, step), *loaded("mnist_train.csv", options.rows))
    end(lambda: torch_accuracy(torch, model.cpu()))


def ddp_nccl():
    ddp("nccl", "cuda")


held, lock, made = None, threading.Lock(), 0  # a server's values, their optimizer, and steps


def push(gradient):
    """On a server: learns from a gradient, or None; its values and how many steps it made."""
    global made
    with lock:
        values, optimizer = held
        if gradient is not None:
            values.grad = gradient
            optimizer.step()
            made += 1
        return values.detach().clone(), made


def rpc():
    global held
    torch, model, criterion = torch_model()
    from torch.distributed import rpc as remote
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    gradient = torch.zeros_like(flat)
    parts = [piece.clone() for piece in flat.chunk(len(options.ps_hosts))]
    serves = options.job_name == "ps"
    if serves:
        values = parts[options.task_index].requires_grad_()
        held = values, adagrad(torch, [values])
    remote.init_rpc(f"{options.job_name}{options.task_index}",
                    rank=options.task_index + (0 if serves else len(options.ps_hosts)),
                    world_size=len(options.ps_hosts) + len(options.worker_hosts),
                    rpc_backend_options=remote.TensorPipeRpcBackendOptions(
                        init_method=f"tcp://{options.ps_hosts[0]}", rpc_timeout=300))
    if serves:
        remote.shutdown()
        return
    at = 0
    for parameter in model.parameters():
        view = slice(at, at + parameter.numel())
        parameter.data, parameter.grad = flat[view].view_as(parameter), gradient[view].view_as(parameter)
        at = view.stop

    def exchange(gradients):
        asked = [remote.rpc_async(f"ps{index}", push, (part,)) for index, part in enumerate(gradients)]
        answers = [one.wait() for one in asked]
        torch.cat([values for values, _ in answers], out=flat)
        return answers[0][1]

    def step(x, y):
        gradient.zero_()
        criterion(model(x), y).backward()
        return exchange(gradient.chunk(len(options.ps_hosts)))

    rows = loaded("mnist_train.csv", options.rows)
    exchange([None] * len(options.ps_hosts))
    train(batched(torch, step), *rows)
    if options.task_index == 0:
        exchange([None] * len(options.ps_hosts))
        print(f"accuracy: {torch_accuracy(torch, model):f}", flush=True)
    remote.shutdown()


def main():
    global options
    kinds = {"tensorflow": tensorflow, "ddp": ddp, "ddp_nccl": ddp_nccl, "rpc": rpc}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("--job_name", choices=("ps", "worker"), required=True)
    parser.add_argument("--task_index", type=int, required=True)
    for job in ("ps", "worker"):
        parser.add_argument(f"--{job}_hosts", type=lambda text: text.split(","), default=[])
    for name in ("data", "logdir"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name in ("rows", "steps", "print_every"):
        parser.add_argument(f"--{name}", type=int, required=True)
    options = parser.parse_args()
    kinds[options.kind]()


if __name__ == "__main__":
    main()
