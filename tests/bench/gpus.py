# SPDX-License-Identifier: MIT
"""The GPUs of this machine that can sum gradients by NCCL, for bench_cluster.py; or why there are none."""
import ctypes
import functools
import os
import re
import subprocess

import bench


def listed():
    """Their names for CUDA_VISIBLE_DEVICES: what TOMBOLA_BENCH_GPUS says (0,1), else all that nvidia-smi knows."""
    chosen = os.environ.get("TOMBOLA_BENCH_GPUS")
    if chosen is not None:
        return re.findall(r"[^,\s]+", chosen)
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"], capture_output=True, text=True,
                              timeout=bench.PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return done.stdout.split() if done.returncode == 0 else []


@functools.cache
def that_exchange():
    """(GPUs, "") or ([], why there are none)."""
    found = listed()
    if len(found) < 2:
        return [], f"this machine has {['no GPU', 'one GPU, and an exchange takes two'][len(found)]}"
    if not re.search("^#define HAVE_CUDA 1$", (bench.BUILD / "config.h").read_text(encoding="ascii"), re.M):
        return [], "the trainer is built without CUDA"
    try:
        ctypes.CDLL("libnccl.so.2")
    except OSError as error:
        return [], f"NCCL cannot be loaded ({error})"
    return found, ""
