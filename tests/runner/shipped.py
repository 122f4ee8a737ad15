# SPDX-License-Identifier: MIT
"""What is shipped, on the real thing: Debian packages on a Debian that boots, images in an engine, manifests on a cluster.

Each is a script that a person may call as well. A machine that cannot run one has a line for it in tests/skips.
"""

import re
import subprocess

import cuda
from places import ROOT

# TAP's lines, and those of tests/images and tests/k8s/run.
GOOD, BAD = re.compile(r"ok(?: \d+ - |  +)(.+)"), re.compile(r"(?:not ok \d+ - |FAILED )(.+)")
SCRIPTS = {
    "debian": [["deploy/package"], ["tests/debian"]],
    "images": [["tests/engine", "tests/images"]],
    "k8s": [["tests/k8s/run"], ["tests/k8s/walk"]],
}


def commands(name):
    """The scripts of the part; packages for GPUs are made where NVIDIA's compiler can be had."""
    toolkit, _ = cuda.toolkit() if name == "debian" else (None, "")
    first, *others = SCRIPTS[name]
    return [[*first, "--with-cuda", toolkit] if toolkit else first, *others]


def reason_to_skip(name):
    """What tests/skips says of `name`; empty: it can run here."""
    done = subprocess.run([ROOT / "tests/skips", f"{name}/"], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.partition("\n")[0].partition(" ")[2].strip()


def check(step):
    """The part that has the step's name."""
    reason = reason_to_skip(step.name)
    if reason:
        step.say(f"SKIPPED: {reason}")
        step.count(0, 0, 1)
        return
    status = 0
    for command in commands(step.name):
        status = status or step.run([ROOT / command[0], *command[1:]], cwd=ROOT)
    said = step.log_path.read_text(errors="replace").splitlines()
    bad = [found[1] for line in said if (found := BAD.fullmatch(line))]
    good = sum(GOOD.fullmatch(line) is not None for line in said)
    if bad:
        step.show_end(step.log_path)
        step.count(good, len(bad), 0, bad)
    elif status != 0 or good == 0:
        step.broken(f"{step.name} ended with {status} after {good} checks")
    else:
        step.count(good, 0, 0)
