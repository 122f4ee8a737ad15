# SPDX-License-Identifier: MIT
"""CUDA files with NVIDIA's own compiler, from PyPI: without a warning, for all GPUs that configure finds it can compile
for; they link, and the program starts where there is no driver. The emulated GPUs of the part asan run the code.
"""

import re
import subprocess
from pathlib import Path

from builds import Build
from places import ROOT

TARGETS = ("loader/libtombola.la", "trainer/tombola-trainer")
FOUND = re.compile(r"result: (sm_.*)")


def toolkit():
    """The folder of the toolkit, or what tests/pypi said."""
    made = subprocess.run([ROOT / "tests/pypi", "nvcc"], capture_output=True, text=True, check=False)
    folders = list(Path(made.stdout.strip()).glob("lib/python3*/site-packages/nvidia/cu13"))
    return (folders[0], "") if made.returncode == 0 and folders else (None, made.stderr.strip())


def check(step):
    folder, problem = toolkit()
    if not folder:
        step.say(f"SKIPPED: nothing was compiled, since NVIDIA's compiler cannot be had: {problem}")
        step.count(0, 0, 1)
        return
    build = Build("build-cuda", ["--enable-werror", f"--with-cuda={folder}"])
    build.folder.mkdir(exist_ok=True)
    if build.configure(step) != 0:
        step.broken("build-cuda cannot be configured")
    elif build.make(step, *TARGETS) != 0:
        step.broken("CUDA files do not compile")
    elif step.run([build.folder / "trainer/tombola-trainer", "--version"]) != 0:
        step.broken("what is linked with CUDA does not start")
    else:
        step.say("compiled for " + FOUND.search((build.folder / "config.log").read_text())[1])
        step.count(1, 0, 0)
