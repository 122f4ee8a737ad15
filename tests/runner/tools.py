# SPDX-License-Identifier: MIT
"""Tools that are not in Debian, from PyPI, for --long only. Without one, its tests fail and say so."""

import os
import subprocess

from places import ROOT


def install_schemathesis():
    made = subprocess.run([ROOT / "tests/pypi", "schemathesis"], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode == 0:
        os.environ["TOMBOLA_SCHEMATHESIS"] = f"{made.stdout.strip()}/bin/schemathesis"
