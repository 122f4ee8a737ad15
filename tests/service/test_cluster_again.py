# SPDX-License-Identifier: MIT
"""Workers whose gradients one parameter server wants computed again each time, while server 0 grants batches."""

import socket
import struct
import threading

import pytest

from cluster_cases import ADDITIVE, Cluster, check_each_batch_once
from conftest import PATIENCE_S
from test_trainer import served, store  # noqa: F401, fixtures

STEPS = 120
HEADER_BYTES, VALUES, AGAIN = 64, 9, 24  # trainer/wire/wire.h


def xxh32(data):
    """XXH32 of fewer than 64 bytes and more than 15, seed 0; by its specification."""
    primes = 2654435761, 2246822519, 3266489917, 668265263, 374761393
    mask = 0xffffffff

    def turn(value, bits):
        return (value << bits | value >> 32 - bits) & mask
    words = struct.unpack(f"<{len(data) // 4}I", data)
    lanes = [primes[0] + primes[1] & mask, primes[1], 0, -primes[0] & mask]
    whole = len(words) // 4 * 4
    for number, word in enumerate(words[:whole]):
        lane = lanes[number % 4] + word * primes[1] & mask
        lanes[number % 4] = turn(lane, 13) * primes[0] & mask
    total = sum(turn(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) + len(data) & mask
    for word in words[whole:]:
        total = turn(total + word * primes[2] & mask, 17) * primes[3] & mask
    for shift, prime in (15, primes[1]), (13, primes[2]):
        total = (total ^ total >> shift) * prime & mask
    return total ^ total >> 16


class Doubter:
    """Before a parameter server: its first answer to each gradient becomes AGAIN."""

    def __init__(self, address):
        host, port = address.split(":")
        self.target, self.doubted = (host, int(port)), set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            worker, _ = self.listener.accept()
            try:
                server = socket.create_connection(self.target, timeout=PATIENCE_S)
            except ConnectionRefusedError:  # it has yet to start
                worker.close()
                continue
            threading.Thread(target=self.pass_on, args=(worker, server), daemon=True).start()
            threading.Thread(target=self.answer, args=(server, worker), daemon=True).start()

    @staticmethod
    def pass_on(source, sink):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_RDWR)

    def answer(self, server, worker):
        frames = server.makefile("rb")
        while len(header := bytearray(frames.read(HEADER_BYTES))) == HEADER_BYTES:
            kind, = struct.unpack_from("<H", header, 8)
            payload, _, batch = struct.unpack_from("<QQq", header, 16)
            assert xxh32(header[:60]) == struct.unpack_from("<I", header, 60)[0]
            if kind == VALUES and batch >= 0 and batch not in self.doubted:
                self.doubted.add(batch)
                struct.pack_into("<H", header, 8, AGAIN)
                struct.pack_into("<I", header, 60, xxh32(header[:60]))
            worker.sendall(header + frames.read(payload))
        worker.close()


@pytest.mark.parametrize("doubtful", [0, 1])
def test_no_grant_is_forgotten(start, served, store, tmp_path, doubtful):  # noqa: F811
    """Each answer of server 0 may bring batches, also those to a gradient that is computed again."""
    trained = Cluster(start, served, store, tmp_path / "run", servers=2, workers=3,
                      **{**ADDITIVE, "train_steps": STEPS, "staleness": 1000})
    for index in range(2):
        trained.start_server(index)
    doubter = Doubter(trained.servers[doubtful])
    seen = [doubter.address if index == doubtful else address for index, address in enumerate(trained.servers)]
    for index in range(3):
        trained.start_worker(index, ps_hosts=",".join(seen), ps_transport="tcp")
    trained.wait()
    assert len(doubter.doubted) > STEPS // 2
    check_each_batch_once(trained.logdir, served, store, tmp_path, STEPS)
