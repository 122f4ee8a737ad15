# SPDX-License-Identifier: MIT
"""A training that lacks what a save needs goes on, and saves as soon as it can."""

import os
import re

import pytest

from failing_disk import traced
from service import run, wait_for

# LeakSanitizer does not work where strace is attached.
NO_LEAKS = {"ASAN_OPTIONS": f"{os.environ.get('ASAN_OPTIONS', '')}:detect_leaks=0"}
NO_THREADS = ("-e", "trace=clone,clone3", "-e", "inject=clone,clone3:error=EAGAIN")


@pytest.fixture
def training(sampler, start, tmp_path):
    """A training that saves every 0.2 s, and has saved."""
    database = f"sqlite:{tmp_path}/rows.db?table=t"
    (tmp_path / "rows.csv").write_text("id,label,x\n" + "".join(f"{i},{i % 4},{i % 5}\n" for i in range(1000)))
    run("loader", "import", f"csv:{tmp_path}/rows.csv", database)
    trainer = start("trainer", "train", "--sampler", sampler("--store", database).url, "--store", database, "--logdir", tmp_path / "run",
                    "--train-steps", 10**9, "--save-secs", 0.2, "--print-every", 0, "--device", "cpu", env=NO_LEAKS)
    trainer.wait_for_log(r"saved [^\n]*ckpt-[1-9]")
    return trainer


def test_it_goes_on_while_no_thread_starts(training, strace, tmp_path):
    with traced(training, strace, tmp_path / "trace", *NO_THREADS):
        training.wait_for_log(r'step \d+ was not saved, training can go on from step \d+ .*cannot start the thread "saver".*; it is tried again')
    saved = training.stderr.count(" saved ")
    wait_for(lambda: training.stderr.count(" saved ") > saved + 2, "it never saved again")


def test_the_last_save_decides(training, strace, tmp_path):
    """Its message is the last one, whatever else fails at the end."""
    with traced(training, strace, tmp_path / "trace", *NO_THREADS):
        training.wait_for_log(r"step (\d+) was not saved, training can go on from step (?!\1 )")  # there is something to save
        training.stop(status=1)
    assert re.search(r'was not saved, training can go on from step \d+ .*"saver"[^\n]*\n$', training.stderr)
