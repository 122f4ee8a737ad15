# SPDX-License-Identifier: MIT
"""Runs steps, each as soon as those it needs are done: some that compute side by side, since a configure or a
link leaves processors idle, and some that wait beside them. Of several that could start, the first of the list does.

Threads: one a step; next_done() is for the caller's.
"""

import threading
import traceback

COMPUTING, WAITING = 3, 3  # steps of each kind at a time


class Schedule:
    def __init__(self, steps, ended=()):
        """`ended`: steps of an earlier schedule, which those of this one may need, too."""
        self.steps = [*steps, *ended]
        self.left, self.running, self.done = list(steps), [], []
        self.changed = threading.Condition()

    def next_done(self):
        """The next step that ended, None after the last. Blocks; signals interrupt it."""
        with self.changed:
            while not self.done:
                if not self.left and not self.running:
                    return None
                self.start_some()
                if not self.done:
                    self.changed.wait(1)
            return self.done.pop(0)

    def start_some(self):
        for step in list(self.left):
            needed = [other for other in self.steps if other.name in step.needs]
            if not all(other.ended for other in needed):
                continue
            unbuilt = next((other for other in needed if other.failure), None)
            if unbuilt:
                self.left.remove(step)
                step.broken(f"{unbuilt.name} failed", unbuilt.log_path)
                self.end(step)
            elif sum(other.waits == step.waits for other in self.running) < (WAITING if step.waits else COMPUTING):
                self.left.remove(step)
                self.running.append(step)
                threading.Thread(target=self.perform, args=(step,), daemon=True).start()

    def perform(self, step):
        try:
            step.perform()
        except Exception:  # the runner's own fault must fail the run, not hang it
            step.say(traceback.format_exc())
            step.broken("the runner failed")
        with self.changed:
            self.running.remove(step)
            self.end(step)

    def end(self, step):
        step.ended = True
        self.done.append(step)
        self.changed.notify()
