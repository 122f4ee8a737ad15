# SPDX-License-Identifier: MIT
"""The emulated GPUs of tests/cuda: they work as late as a GPU may, and what is wrong does not pass."""

import os
import pathlib
import subprocess

import pytest
from conftest import PATIENCE_S

pytestmark = pytest.mark.plain

CUDA = pathlib.Path(__file__).resolve().parent.parent / "cuda"

RIGHT = (
    "late_kernel",
    "late_memset",
    "registered_memory",
    "free_memory_is_told",
    "blocking_stream_follows_default",
    "events_order_streams",
    "grid_limits",
    "calls_that_fail",
    "work_that_fails",
    "captured_work_is_replayed",
    "captures_refuse",
    "wrong_gpu_is_refused",
    "warps",
    "shared_memory",
)
WRONG = {
    "no_gpu_is_chosen": "a thread uses a GPU and has not chosen one",
    "kernel_is_given_other_gpu": "work is given memory of the host, of another GPU",
    "kernel_reaches_other_gpu": "on another GPU",
    "host_reads_gpu": "host code touches a GPU's memory",
    "host_writes_gpu_behind_work": "host code touches a GPU's memory",
    "kernel_is_given_host": "work is given memory of the host",
    "kernel_writes_beyond": "AddressSanitizer: use-after-poison",
    "kernel_after_free": "memory is used that was freed",
    "copy_after_free": "a copy, or a memset, uses memory that was freed",
    "copy_after_unregister": "a copy, or a memset, uses memory that was freed",
    "host_reads_after_free": "memory is used that was freed",
    "graph_after_free": "memory is used that was freed",
    "leaks_memory": "1 allocations, 0 streams and events, 0 graphs are left",
    "leaks_registration": "1 allocations, 0 streams and events, 0 graphs are left",
    "leaks_stream": "0 allocations, 1 streams and events, 0 graphs are left",
    "leaks_graph": "0 allocations, 0 streams and events, 1 graphs are left",
    "too_much_shared": "more shared memory than there is",
    "lane_not_in_mask": "a mask that it is not in",
    "lanes_with_other_masks": "threads of a block wait for each other at different places",
    "lanes_at_other_operations": "threads of a block wait for each other at different places",
    "lane_reads_outside_mask": "a lane reads the value of one that is not there",
    "lane_reads_ended": "a lane reads the value of one that is not there",
    "lane_is_missing": "threads of a block wait for each other at different places",
}


@pytest.fixture(scope="module")
def wrongs(tmp_path_factory):
    """The program of all cases, with AddressSanitizer."""
    folder = tmp_path_factory.mktemp("cuda")
    toolkit, flags = folder / "toolkit", ("-fsanitize=address", "-g", "-Wall", "-Wextra", "-Werror")
    subprocess.run([CUDA / "toolkit", toolkit, *flags], check=True, timeout=PATIENCE_S)
    compile_it = [toolkit / "bin" / "nvcc", "-std=c++17", "-c", "-o", folder / "wrongs.o", CUDA / "wrongs_cuda.cu"]
    link_it = ["g++", "-fsanitize=address", "-o", folder / "wrongs", folder / "wrongs.o"]
    subprocess.run(compile_it, check=True, timeout=PATIENCE_S)
    subprocess.run([*link_it, f"-L{toolkit / 'lib64'}", "-lcudart_static"], check=True, timeout=PATIENCE_S)
    return folder / "wrongs"


def run_case(wrongs, name):
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [wrongs, name], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_works(wrongs, name):
    done = run_case(wrongs, name)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_ends_the_program(wrongs, name):
    done = run_case(wrongs, name)
    assert done.returncode not in (0, 2, 3), done.stderr
    assert WRONG[name] in done.stderr
