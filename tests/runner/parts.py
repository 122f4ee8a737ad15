# SPDX-License-Identifier: MIT
"""The parts of a run, as steps: which build each needs and what it does for a selection."""

import bench
import coverage
import cuda
import dist
import fuzz
import kept
import late
import layering
import lint
import service
import shipped
import unit
from builds import ASAN, COVERAGE, FUZZ, PLAIN, TSAN
from places import LONG
from selection import all_tests
from step import Step

# bench keeps one processor busy for minutes, and asan has most to wait for: at the end, nothing would run beside them.
NAMES = ("unit", "layering", "lint", "bench", "asan", "fault", "service", "tsan", "fuzz", "cuda", "dist", *shipped.SCRIPTS,
         "late", "coverage")
ONLY_LONG = ("late", "coverage", *shipped.SCRIPTS)
WHOLE = NAMES if LONG else tuple(name for name in NAMES if name not in ONLY_LONG)
# Of the service tests. What ASan's build runs is not run in the plain build again: tests/README.md says why.
LIGHT, REST, THREADS = ("-m", "not heavy and not plain"), ("-m", "heavy or plain"), ("-m", "threads and not heavy")
# Of the fault tests, under ASan: failing allocations, a preloaded library, another clock, a full disk, a kill.
MEMORY = "tests/fault/test_memory.py"
FAULTS = ("tests/fault", "-m", "not heavy") if LONG else (
    MEMORY, "tests/fault/test_sampler_clock.py", "tests/fault/test_power_replay.py::test_a_frame_is_whole",
    *(f"tests/fault/test_sampler_disk.py::{name}" for name in (
        "test_a_full_disk_refuses_and_goes_on_when_there_is_room",
        "test_a_kill_while_the_disk_is_full_and_a_start_on_a_full_disk",
        "test_another_frame_and_a_second_server_are_refused_by_name")))
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def unit_step(name, build, chosen):
    names, noted = chosen.tests["unit"], "unit" in chosen.parts

    def work(step):
        if build is TSAN:
            unit.check_threads(step, build, names, chosen.keeps, noted)
        else:
            unit.check(step, build, names, chosen.keeps, unit.NOTES if build is PLAIN else None)

    return Step(name, work, needs=[build.name, *(["unit"] if build is TSAN and noted else [])])


def service_step(name, build, chosen, files, *more, env=None):
    return Step(name, lambda step: service.test(step, build, files, *more, env=env, keeps=chosen.keeps),
                needs=[build.name], waits=True)


def whole_step(name, check, chosen, need=PLAIN.name):
    return Step(name, kept.whole(check, PLAIN) if chosen.keeps else check, needs=[need])


def sanitized(name, build, chosen):
    found = []
    files = chosen.tests["service"] or ["tests/service"]
    if chosen.wants("unit"):
        found.append(unit_step(f"{name}-unit", build, chosen))
    if chosen.wants("service"):
        marked = THREADS if build is TSAN else LIGHT
        found.append(service_step(f"{name}-service", build, chosen, files, *marked, env=NO_GPU))
    if build is ASAN and chosen.wants("service") and not chosen.tests["service"]:
        found.append(service_step("asan-gpu", build, chosen, ["tests/service/test_trainer_math.py"], *LIGHT))
        found.append(service_step("asan-fault", build, chosen, FAULTS))
    return found


def coverage_steps():
    """All that counts, each test once, and then the sum."""
    def forget_and_check(step):
        coverage.clear()
        unit.check(step, COVERAGE)

    def programs(name, *words):
        return Step(name, lambda step: service.test(step, COVERAGE, words), needs=["coverage-unit"], waits=True)

    counting = [Step("coverage-unit", forget_and_check, needs=[COVERAGE.name]),
                programs("coverage-service", "tests/service", "-m", "not plain"), programs("coverage-memory", MEMORY)]
    return [*counting, Step("coverage", coverage.measure, needs=[step.name for step in counting])]


def steps(chosen):
    """The steps of every part that is chosen, in the order in which they are to start where they can."""
    targets = chosen.tests["fuzz"] or all_tests("fuzz")
    plain = REST if "asan" in chosen.parts and not LONG else ()
    makers = {
        "unit": lambda: [unit_step("unit", PLAIN, chosen)],
        "layering": lambda: [Step("layering", layering.check, needs=[PLAIN.name])],
        "lint": lambda: [Step("lint", lambda step: lint.check(step, chosen.lints), needs=[PLAIN.name])],
        "service": lambda: [service_step("service", PLAIN, chosen, chosen.tests["service"] or ["tests/service"], *plain)],
        "fault": lambda: [service_step("fault", PLAIN, chosen, chosen.tests["fault"] or ["tests/fault"])],
        "asan": lambda: sanitized("asan", ASAN, chosen),
        "tsan": lambda: sanitized("tsan", TSAN, chosen),
        "fuzz": lambda: [Step("fuzz", lambda step: fuzz.test(step, targets), needs=[FUZZ.name])],
        "cuda": lambda: [whole_step("cuda", cuda.check, chosen, "autoreconf")],
        "dist": lambda: [whole_step("dist", dist.check, chosen)],
        "bench": lambda: [whole_step("bench", bench.check, chosen)],
        **{name: lambda name=name: [Step(name, shipped.check)] for name in shipped.SCRIPTS},
        "late": lambda: [Step("late", late.check, needs=[PLAIN.name], waits=True)],
        "coverage": coverage_steps,
    }
    return [step for name in NAMES if name in chosen.parts for step in makers[name]()]
