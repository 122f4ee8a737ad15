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

RANKS_RIGHT = ("sums_and_sends", "one_gpu_for_two", "not_ready", "a_dead_rank_hangs_the_stream")
RANKS_WRONG = {
    "use_after_abort": "a communicator is used after its end",
    "other_sums": "ranks ask for different things",
}


@pytest.fixture(scope="module")
def toolkit(tmp_path_factory):
    """With AddressSanitizer."""
    made, flags = tmp_path_factory.mktemp("cuda") / "toolkit", ("-fsanitize=address", "-g", "-Wall", "-Wextra", "-Werror")
    subprocess.run([CUDA / "toolkit", made, *flags], check=True, timeout=PATIENCE_S)
    return made


def build(toolkit, name, *libraries):
    """The program of all cases of tests/cuda/NAME_cuda.cu."""
    made = toolkit.parent / name
    compile_it = [toolkit / "bin" / "nvcc", "-std=c++17", "-c", "-o", f"{made}.o", CUDA / f"{name}_cuda.cu"]
    link_it = ["g++", "-fsanitize=address", "-o", made, f"{made}.o", *libraries]
    subprocess.run(compile_it, check=True, timeout=PATIENCE_S)
    subprocess.run([*link_it, f"-L{toolkit / 'lib64'}", "-lcudart_static", "-lpthread"], check=True, timeout=PATIENCE_S)
    return made


@pytest.fixture(scope="module")
def wrongs(toolkit):
    return build(toolkit, "wrongs")


@pytest.fixture(scope="module")
def ranks(toolkit):
    return build(toolkit, "ranks", toolkit / "lib64" / "libnccl.so.2", f"-Wl,-rpath,{toolkit / 'lib64'}")


def run_case(program, name, **more):
    environment = {key: value for key, value in os.environ.items() if key != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [program, name], env={**environment, **more}, capture_output=True, text=True, check=False, timeout=PATIENCE_S
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


@pytest.mark.parametrize("name", RANKS_RIGHT)
def test_ranks_that_are_right_work(ranks, name, tmp_path):
    done = run_case(ranks, name, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir()), "what ranks share is left"


@pytest.mark.parametrize("name", RANKS_WRONG)
def test_ranks_that_are_wrong_end_the_program(ranks, name, tmp_path):
    done = run_case(ranks, name, TMPDIR=str(tmp_path))
    assert done.returncode not in (0, 2, 3), done.stderr
    assert RANKS_WRONG[name] in done.stderr
