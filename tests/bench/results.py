# SPDX-License-Identifier: MIT
"""Writes RESULTS.md from the tables of a whole run, and the table of README.md from that of `comparison`.

    results.py FOLDER NAME...    FOLDER has the output of each benchmark as NAME.md
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
HEAD = """# The last whole run of the benchmarks

`tests/bench/run --write` wrote this file and the table of the top README; edit neither by hand. How each figure is
measured stands at the head of tests/bench/bench_NAME.py, what median, spread and ratio mean in tests/bench/bench.py.
A ratio below 1 is where a peer is better.
"""
BEGIN, END = "<!-- tests/bench/run --write -->\n", "<!-- end of what it writes -->\n"


def first_table(text):
    """The first table, without the padding."""
    lines = re.search(r"^\|.*\n(?:\|.*\n)+", text, re.M)[0]
    return re.sub(r" +\|", " |", re.sub(r"\| +", "| ", re.sub(r"-+:?\|", "---|", lines))).replace("|  |", "| |")


def main():
    tables = {name: (Path(sys.argv[1]) / f"{name}.md").read_text(encoding="utf-8") for name in sys.argv[2:]}
    parts = [f"\n## {name}\n{text}" for name, text in tables.items()]
    (HERE / "RESULTS.md").write_text(HEAD + "".join(parts), encoding="utf-8")
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(before + BEGIN + first_table(tables["comparison"]) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
