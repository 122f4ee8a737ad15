# SPDX-License-Identifier: MIT
"""Training workers of four systems, for bench_comparison.py: they pull batches of 100 ids in turn and
print each as a JSON line, with the seconds since the first was asked for and the memory since then.

    peer_worker.py dataloader - --units N    PyTorch's DataLoader with its DistributedSampler, a rank a worker
    peer_worker.py permutation - --units N   DataLoader over torch.randperm, for the size where the ids of
                                             DistributedSampler and RandomSampler, Python ints, do not fit
    peer_worker.py tfdata URL --units N --buffer B   tf.data service: shuffle(B), one job for all workers
    peer_worker.py tfglobal URL --units N    the same with the shuffle that TensorFlow does not export
    peer_worker.py redis PORT                LPOP ids 100
    peer_worker.py tombola URL               leased batches, acked when done

--workers W pull in turn until no batch is left for any of them, or until --batches are done. With
--hold they then pull one more, which is never done: they wait to be killed.
"""
import argparse
import http.client
import itertools
import json
import os
import re
import socket
import sys
import time
import urllib.parse

BATCH = 100
SEED = 1
PATIENCE_S = 60


def lists(tensors):
    """A generator, so that nothing begins before the first pull."""
    for tensor in tensors:
        yield tensor.numpy().tolist()


class Worker:
    """Pulls from `batches`, an iterator over lists of ids that the subclass sets; has nobody to send an ack to."""

    def pull(self):
        """The next batch as a dictionary with `ids`, or None at the end."""
        ids = next(self.batches, None)
        return None if ids is None else {"ids": ids}

    def done(self):
        pass


class Dataloader(Worker):
    def __init__(self, options, rank):
        import torch
        torch.set_num_threads(1)
        self.torch = torch
        self.batches = lists(torch.utils.data.DataLoader(Rows(options.units), **self.order(options, rank)))

    def order(self, options, rank):
        sampler = self.torch.utils.data.distributed.DistributedSampler(
            Rows(options.units), num_replicas=options.of or options.workers, rank=rank, seed=SEED)
        return {"sampler": sampler, "batch_size": BATCH}


class Permutation(Dataloader):
    def order(self, options, rank):
        return {"batch_sampler": self.cut(options.units)}

    def cut(self, units):
        order = self.torch.randperm(units, generator=self.torch.Generator().manual_seed(SEED))
        for first in range(0, units, BATCH):
            yield order[first:first + BATCH].tolist()


class Rows:
    """A data set whose row is its own number."""

    def __init__(self, units):
        self.units = units

    def __len__(self):
        return self.units

    def __getitem__(self, index):
        return index


class Tfdata(Worker):
    def __init__(self, options, _rank):
        import tensorflow
        service = tensorflow.data.experimental.service
        # OFF: the one server hands each batch to whichever worker asks first; a client still prefetches.
        served = self.shuffled(tensorflow.data.Dataset.range(options.units), options).batch(BATCH).apply(
            service.distribute(service.ShardingPolicy.OFF, options.where, job_name=options.job,
                               max_outstanding_requests=1))
        self.batches = lists(served)

    def shuffled(self, dataset, options):
        return dataset.shuffle(options.buffer or options.units, seed=SEED)


class Tfglobal(Tfdata):
    def shuffled(self, dataset, options):
        from tensorflow.python.data.experimental.ops import global_shuffle_op
        return global_shuffle_op._global_shuffle(dataset, seed=SEED)


class Redis(Worker):
    def __init__(self, options, _rank):
        self.stream = socket.create_connection(("127.0.0.1", int(options.where))).makefile("rwb")
        self.batches = iter(self.popped, None)

    def popped(self):
        self.stream.write(b"LPOP ids %d\r\n" % BATCH)
        self.stream.flush()
        count = int(self.stream.readline()[1:])  # *100, or *-1 when the list is gone
        # Each id is its length, then itself.
        return [int(self.stream.readline() and self.stream.readline()) for _ in range(count)] or None


class Tombola(Worker):
    def __init__(self, options, rank):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(options.where).netloc)
        self.name, self.seq = f"w{rank}-{os.getpid()}", -1

    def ask(self, method, target, body=None):
        self.connection.request(method, target, body)
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def pull(self):
        self.seq += 1
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            status, body = self.ask("GET", f"/batch?size={BATCH}&worker={self.name}&seq={self.seq}")
            if status in (200, 204):
                return json.loads(body) if status == 200 else None
            if status != 503:
                sys.exit(f"GET /batch: {status} {body[:300]!r}")
            time.sleep(0.1)  # all that is left is leased
        sys.exit("nothing but leased batches, for a minute")

    def done(self):
        body = json.dumps({"stream": "default", "worker": self.name, "seqs": [self.seq]})
        status, answer = self.ask("POST", "/ack", body)
        if status != 200:
            sys.exit(f"POST /ack: {status} {answer[:300]!r}")


def peak_bytes(pid="self"):
    """The most memory that a process has had resident so far."""
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", lines.read()).group(1))


def in_turn(workers):
    """(worker, batch) of each in turn; who has none left is not asked again."""
    left = list(workers)
    while left:
        for worker in list(left):
            batch = worker.pull()
            if batch is None:
                left.remove(worker)
            else:
                yield worker, batch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("system")
    parser.add_argument("where")
    parser.add_argument("--units", type=int, default=0)
    parser.add_argument("--buffer", type=int, default=0)
    parser.add_argument("--job", default="train", help="of tf.data service: one that has ended serves nothing more")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--rank", type=int, default=0, help="of the first of the workers")
    parser.add_argument("--of", type=int, default=0, help="workers in all; default: --workers")
    parser.add_argument("--batches", type=int, help="done by all workers together; default: all")
    parser.add_argument("--hold", action="store_true")
    options = parser.parse_args()
    kind = {"dataloader": Dataloader, "permutation": Permutation, "tfdata": Tfdata, "tfglobal": Tfglobal,
            "redis": Redis, "tombola": Tombola}[options.system]
    workers = [kind(options, options.rank + number) for number in range(options.workers)]
    pulled = in_turn(workers)
    started, before = time.perf_counter(), peak_bytes()
    for worker, batch in itertools.islice(pulled, options.batches):
        worker.done()
        spent = {"seconds": time.perf_counter() - started, "bytes": peak_bytes() - before}
        print(json.dumps({**batch, **spent}), flush=True)
    if options.hold:
        print(json.dumps(next(pulled)[1]), flush=True)
        time.sleep(PATIENCE_S)


if __name__ == "__main__":
    main()
