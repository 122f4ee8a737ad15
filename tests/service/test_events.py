# SPDX-License-Identifier: MIT
"""The files of trainer/events as TensorBoard's own reader sees them. A small program writes them."""

import json
import math
import random
import re
import struct
import subprocess

import pytest

from conftest import BUILD, PATIENCE_S, ROOT, SEED, from_pypi

pytestmark = pytest.mark.plain

# WRITER FOLDER: starts at step 0, writes 20 steps; starts again at step 10 with other values, and the histogram of the
# floats on standard input.
WRITER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "trainer/events/event_writer.h"
#define LIMIT (1 << 20)
static void write_steps(struct event_writer *writer, int first, int end, double base)
{
    event_writer_session(writer, first, EVENT_START, NULL);
    for (int step = first; step < end; step++) {
        const struct event_scalar scalars[] = {{"loss", base + step}, {"rows/s", 1e9 * step}};
        event_writer_scalars(writer, step, scalars, 2);
    }
}
int main(int argc, char **argv)
{
    struct event_writer *writer;
    struct event_tensor *tensor = calloc(1, sizeof(*tensor));
    float *values = malloc(LIMIT * sizeof(*values));
    tensor->count = fread(values, sizeof(*values), LIMIT, stdin);
    strcpy(tensor->tag, "hid_w");
    if (argc != 2 || event_writer_open(argv[1], false, &writer))
        return 1;
    write_steps(writer, 0, 20, 0.5);
    event_writer_close(writer);
    if (event_writer_open(argv[1], false, &writer))
        return 1;
    write_steps(writer, 10, 15, 100.5);
    event_writer_tensors(writer, 15, tensor, 1, values);
    event_writer_session(writer, 15, EVENT_CHECKPOINT, "run/model.ckpt-15.safetensors");
    event_writer_session(writer, 15, EVENT_STOP, NULL);
    event_writer_close(writer);
    return 0;
}
"""

# Prints what it finds as JSON; its own messages go to standard error.
READER = r"""
import json, sys, glob
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
seen = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0, "histograms": 0}).Reload()
tags = seen.Tags()
sessions = [(event.step, event.session_log.status, event.session_log.checkpoint_path)
            for path in sorted(glob.glob(sys.argv[1] + "/events.out.*")) for event in LegacyEventFileLoader(path).Load()
            if event.HasField("session_log")]
print(json.dumps({
    "scalars": {tag: [(e.step, e.value, e.wall_time) for e in seen.Scalars(tag)] for tag in tags["scalars"]},
    "histograms": {tag: [(e.step, vars(e.histogram_value)) for e in seen.Histograms(tag)] for tag in tags["histograms"]},
    "version": seen.file_version, "sessions": sessions}))
"""


def setting(name):
    """Of the build: the flags that its programs are linked with."""
    found = re.search(rf"^{name} = *(.*)$", (BUILD / "Makefile").read_text(), re.MULTILINE)
    return found[1].split()


def write_events(folder, values):
    source, program = folder / "writer.c", folder / "writer"
    source.write_text(WRITER)
    flags = [*setting("SANITIZER_CFLAGS"), *setting("COVERAGE_CFLAGS")]
    libraries = [*setting("PROTOBUF_C_LIBS"), *setting("CJSON_LIBS"), "-lm", "-pthread"]
    subprocess.run(["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", *flags, "-I", ROOT, source, "-o", program,
                    BUILD / "trainer/.libs/libtrainer.a", *libraries], check=True, timeout=PATIENCE_S)
    logdir = folder / "run"
    logdir.mkdir()
    subprocess.run([program, logdir], input=struct.pack(f"{len(values)}f", *values), check=True, timeout=PATIENCE_S)
    return logdir


def read_events(folder):
    """What TensorBoard sees in a folder."""
    done = subprocess.run([from_pypi("tensorboard") / "bin/python", "-c", READER, folder], stdout=subprocess.PIPE, text=True,
                          check=True, timeout=PATIENCE_S)
    return json.loads(done.stdout)


def test_tensorboard_reads_what_was_written(tmp_path):
    chance = random.Random(SEED)
    values = [chance.gauss(0, 0.05) for _ in range(10_000)] + [0.0] * 100
    logdir = write_events(tmp_path, values)
    seen = read_events(logdir)

    # What the first start wrote beyond step 9 is forgotten: the second began there.
    kept = [(step, 0.5 + step) for step in range(10)] + [(step, 100.5 + step) for step in range(10, 15)]
    assert [(step, value) for step, value, _ in seen["scalars"]["loss"]] == kept
    assert [step for step, _, _ in seen["scalars"]["rows/s"]] == list(range(15))
    times = [time for _, _, time in seen["scalars"]["loss"]]
    assert times == sorted(times) and times[0] > 1.7e9
    assert seen["version"] == 2
    assert seen["sessions"] == [[0, 1, ""], [10, 1, ""], [15, 3, "run/model.ckpt-15.safetensors"], [15, 2, ""]]

    ((step, counted),) = seen["histograms"]["hid_w"]
    limits, buckets = counted["bucket_limit"], counted["bucket"]
    floats = struct.unpack(f"{len(values)}f", struct.pack(f"{len(values)}f", *values))
    assert (step, counted["min"], counted["max"], counted["num"]) == (15, min(floats), max(floats), len(floats))
    assert math.isclose(counted["sum"], math.fsum(floats), abs_tol=1e-9)
    assert math.isclose(counted["sum_squares"], math.fsum(value * value for value in floats), rel_tol=1e-9)
    assert sum(buckets) == len(floats) and limits == sorted(limits)
    for low, high, held in zip([-math.inf, *limits], limits, buckets):
        assert held == sum(low <= value < high for value in floats)


def test_the_lines_say_the_same(tmp_path):
    lines = [json.loads(line) for line in (write_events(tmp_path, [1.0, -1.0]) / "events.jsonl").read_text().splitlines()]
    assert [(line["step"], line["loss"]) for line in lines if "loss" in line] == \
        [(step, 0.5 + step) for step in range(20)] + [(step, 100.5 + step) for step in range(10, 15)]
    assert [(line["step"], line["session"], line.get("path")) for line in lines if "session" in line] == [
        (0, "start", None), (10, "start", None), (15, "checkpoint", "run/model.ckpt-15.safetensors"), (15, "stop", None)]
    (histogram,) = (line for line in lines if "histogram" in line)
    assert (histogram["histogram"], histogram["num"], histogram["sum"], histogram["sum_squares"]) == ("hid_w", 2, 0, 2)
    assert len(histogram["bucket"]) == len(histogram["bucket_limit"])
