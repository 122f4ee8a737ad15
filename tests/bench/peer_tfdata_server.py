# SPDX-License-Identifier: MIT
"""A tf.data service: dispatcher and one worker, for bench_comparison.py. Prints a line when it serves.

    peer_tfdata_server.py PORT WORKER_PORT FOLDER    FOLDER keeps what a restarted dispatcher goes on from
"""
import sys

from tensorflow.data.experimental import service


def main():
    port, worker_port, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dispatcher = service.DispatchServer(service.DispatcherConfig(
        port=port, protocol="grpc", work_dir=folder, fault_tolerant_mode=True))
    worker = service.WorkerServer(service.WorkerConfig(
        dispatcher_address=f"127.0.0.1:{port}", worker_address=f"127.0.0.1:{worker_port}", port=worker_port))
    print(dispatcher.target, flush=True)
    worker.join()  # until it is killed


if __name__ == "__main__":
    main()
