# SPDX-License-Identifier: MIT
"""The part `late`: service and fault tests, with programs whose calls to the system are late now and then."""

import service
from builds import PLAIN
from places import JOBS, ROOT

SOURCE = ROOT / "tests/service/late_calls.c"
WORKERS = 4 * JOBS  # they rest most of the time


def check(step):
    library = PLAIN.folder / f"{SOURCE.stem}.so"
    if step.run([ROOT / "tests/preloaded", SOURCE, library]) != 0:
        step.broken(f"{SOURCE.name} does not compile")
        return
    service.test(step, PLAIN, ["tests/service", "tests/fault"], "-n", WORKERS, env={"LD_PRELOAD": library})
