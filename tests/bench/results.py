# SPDX-License-Identifier: MIT
"""Writes the tables of benchmarks into RESULTS.md, and the first of `comparison` into README.md.

    results.py FOLDER NAME...    FOLDER has the output of each benchmark as NAME.md; the sections of others stay
"""
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
RESULTS = HERE / "RESULTS.md"
HEAD = """# The last run of each benchmark

`tests/bench/run --write` wrote this file and the table of the top README; edit neither by hand. Each section names its
processor, commit and date. How a figure is measured stands at the head of tests/bench/bench_NAME.py, what median,
spread and ratio mean in tests/bench/bench.py. A ratio below 1 is where a peer is better.
"""
BEGIN, END = "<!-- tests/bench/run --write -->\n", "<!-- end of what it writes -->\n"


def first_table(text):
    """The first table, without the padding."""
    lines = re.search(r"^\|.*\n(?:\|.*\n)+", text, re.M)[0]
    return re.sub(r" +\|", " |", re.sub(r"\| +", "| ", re.sub(r"-+:?\|", "---|", lines))).replace("|  |", "| |")


def sections(text):
    """{name: text}, in order."""
    parts = re.split(r"^## (.*)\n", text, flags=re.M)[1:]
    return {name: body.strip("\n") for name, body in zip(parts[::2], parts[1::2])}


def main():
    tables = sections(RESULTS.read_text(encoding="utf-8"))
    measured = {name: (Path(sys.argv[1]) / f"{name}.md").read_text(encoding="utf-8") for name in sys.argv[2:]}
    tables |= {name: text.strip("\n") for name, text in measured.items()}
    RESULTS.write_text(HEAD + "".join(f"\n## {name}\n\n{text}\n" for name, text in tables.items()), encoding="utf-8")
    if "comparison" in measured:
        before, rest = README.read_text(encoding="utf-8").split(BEGIN)
        after = rest.split(END)[1]
        README.write_text(before + BEGIN + first_table(measured["comparison"]) + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
