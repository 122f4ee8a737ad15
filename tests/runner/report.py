# SPDX-License-Identifier: MIT
"""What a person reads of a run: each step's lines at once when it ends, what it all took, and the closing line."""

import time

import record


class Report:
    def __init__(self):
        self.started = time.monotonic()
        self.ended = []

    def add(self, step):
        """Takes and prints a step that ended."""
        self.ended.append(step)
        self.show(step)

    @staticmethod
    def show(step):
        """A build that succeeded has nothing to say."""
        print(f"== {step.name}")
        for line in step.lines:
            print(f"   {line}")
        counts = "{:5} passed {:4} failed {:4} skipped".format(*step.counts) if step.counts else ""
        kept = f" ({step.kept:,} kept from before)" if step.kept else ""
        print(f"   {step.name:<13} {counts:<37} {cost(step)}{kept}", flush=True)

    def sums(self):
        return [sum(step.counts[kind] for step in self.ended if step.counts) for kind in range(3)]

    @property
    def wall_s(self):
        return time.monotonic() - self.started

    @property
    def cpu_s(self):
        return sum(step.cpu_s for step in self.ended)

    def close(self):
        """Returns the exit status."""
        print("== what took longest")
        for step in sorted(self.ended, key=lambda step: -step.cpu_s)[:8]:
            print(f"   {step.name:<13} {cost(step)}")
        print(f"   {'all':<13} {minutes(self.wall_s)} min, {minutes(self.cpu_s)} processor min")
        print("== branch coverage, as recorded\n   " + record.read("Branch coverage").replace("\n", "\n   "))
        counted = [step for step in self.ended if step.counts]
        list_names("failed, and passed when nothing else ran", [(step, name) for step in counted for name in step.unsteady])
        broken = [step for step in counted if step.counts[1]]
        list_names("failed", [(step, name) for step in broken for name in step.failed or ["its lines above"]])
        passed, failed, skipped = self.sums()
        if kept := sum(step.kept for step in counted):
            print(f"{kept:,} of these tests passed earlier today with the same inputs and did not run (--fresh runs all)")
        print(f"{passed} passed, {failed} failed, {skipped} skipped")
        return 1 if failed else 0


def list_names(title, found):
    if found:
        print(f"== {title}")
        for step, name in found:
            print(f"   {step.name}: {name}")


def minutes(seconds):
    return f"{seconds / 60:5.1f}"


def cost(step):
    return f"{minutes(step.wall_s)} min, {minutes(step.cpu_s)} processor min"
