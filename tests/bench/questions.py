# SPDX-License-Identifier: MIT
"""What the programs share that bench.Peer asks: their imports are done when they say that they are ready."""
import json
import sys
import time


def answer_with(answer):
    """Each line of JSON that comes is the words of a call, whose result is the next line that goes."""
    print("ready", flush=True)
    for question in sys.stdin:
        print(json.dumps(answer(**json.loads(question))), flush=True)


def epoch_rates(walk, begin, seconds):
    """Rows a second of the first epoch, since `begin`, and of later ones for so long at least; walk() does one, and gives
    its rows."""
    rows = walk()
    first = rows / (time.perf_counter() - begin)
    begin, later = time.perf_counter(), 0
    while not later or time.perf_counter() - begin < seconds:
        later += walk()
    return {"first": first, "later": later / (time.perf_counter() - begin), "rows": rows + later}
