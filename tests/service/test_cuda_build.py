# SPDX-License-Identifier: MIT
"""CUDA objects of the build: made again when a header changes, and removed with the rest."""

import os
import subprocess

import pytest
from conftest import BUILD, PATIENCE_S, ROOT

OBJECTS = ("loader/device/device_cuda", "trainer/compute/kernel_cuda")


@pytest.fixture(autouse=True)
def has_cuda():
    if "#define HAVE_CUDA 1" not in (BUILD / "config.h").read_text():
        pytest.skip("the build has no CUDA")


def plan(*arguments):
    """What make would do."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "-C", BUILD, "--dry-run", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    return done.stdout


def headers_of(name):
    """Those of the tree that the compiler read, as make names them."""
    words = (BUILD / f"{name}.d").read_text().replace("\\\n", " ").split(":")[1].split()
    folders = [ROOT / folder for folder in ("common", "loader", "trainer")]
    return [word for word in words if any(folder in (BUILD / word).resolve().parents for folder in folders)]


@pytest.mark.parametrize("name", OBJECTS)
def test_a_changed_header_makes_the_object_again(name):
    headers = [word for word in headers_of(name) if word.endswith(".h")]
    assert any(header.endswith("loader/device/device.h") for header in headers)
    assert "nvcc-compile" not in plan(f"{name}.lo")
    for header in headers:
        assert f"nvcc-compile {name}.lo" in plan("-W", header, f"{name}.lo"), header


@pytest.mark.parametrize("name", OBJECTS)
def test_turing_is_built_for(name):
    """The oldest GPUs (T4, RTX 20) that every toolkit since CUDA 10 compiles for."""
    assert "code=sm_75" in plan("-W", headers_of(name)[0], f"{name}.lo")


@pytest.mark.parametrize("name", OBJECTS)
def test_what_make_knows_of_headers_is_cleaned_up(name):
    assert f"{name}.d" in plan("clean")


NVCC = r"""#!/bin/bash
# As nvcc does: the compiler sees a temporary file with the process id in its name.
while (($#)); do case $1 in -MF) echo "$3:" >"$2" ;; -o) output=$2 source=$3 ;; esac; shift; done
cd "$(dirname "$source")" && cp "$(basename "$source")" "tmpxft_$$.c" && cc -c -o "$output" "tmpxft_$$.c"
"""


def test_an_object_is_the_same_bytes_whenever_it_is_made(tmp_path):
    (tmp_path / "nvcc").write_text(NVCC)
    (tmp_path / "nvcc").chmod(0o755)
    (tmp_path / "kernel.cu").write_text("int answer(void) { return 42; }\n")
    found = set()
    for _ in range(2):
        subprocess.run([ROOT / "m4/nvcc-compile", tmp_path / "kernel.lo", tmp_path / "kernel.cu", tmp_path / "nvcc"], check=True)
        found.add((tmp_path / "kernel.o").read_bytes())
    assert len(found) == 1 and b"answer" in found.pop()


@pytest.mark.plain  # libasan needs libstdc++ itself
def test_who_uses_the_library_needs_no_cplusplus():
    """A program in C is bound to no libstdc++, whatever nvcc makes of CUDA files."""
    library = BUILD / "loader/.libs/libtombola.so"
    done = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert "[libc.so" in done.stdout and "libstdc++" not in done.stdout
