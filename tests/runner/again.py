# SPDX-License-Identifier: MIT
"""The few tests that failed, once more when nothing else runs.

One that passes then needs a quiet machine: that is a fault of the test, or a rare one of the product, and the run's last
lines name it, but a change that has nothing to do with it can land. Of many none is tried: that is no accident.
"""

from step import Step

FEW = 3  # tests, of a whole run


def try_again(report):
    """Only if all of a run's failures can be tried again. A step that passes then has no failures any more, but names
    in `unsteady`."""
    broken = [step for step in report.ended if step.counts and step.counts[1]]
    if not all(step.repeat for step in broken) or sum(step.counts[1] for step in broken) > FEW:
        return
    for step in broken:
        second = Step(f"{step.name}-again", step.repeat)
        second.perform()
        report.show(second)
        passed, failed, _ = second.counts
        if failed == 0 and passed > 0:
            step.counts = (step.counts[0] + step.counts[1], 0, step.counts[2])
            step.unsteady, step.failed = step.failed, []
