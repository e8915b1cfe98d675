#!/usr/bin/env python3
"""Checks that docs/results.md has every result and counter, and quotes log lines as they are.

    results_page_test.py TOP_OF_THE_REPOSITORY
"""
import pathlib
import re
import sys

RESULT = re.compile(r"^    XX\((\w+), -?\d+, ", re.MULTILINE)
STATS = re.compile(r"^struct relock_stats \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
COUNTER = re.compile(r"^    (?:uint64_t|struct \w+) (\w+)(?:\[\w+\])?;", re.MULTILINE)
SECTION = re.compile(r"^## Log lines\n(.*?)^## ", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (`[^|]*) \|", re.MULTILINE)
SPAN = re.compile(r"`([^`\n]+)`")


def main(top):
    page = (top / "docs" / "results.md").read_text()
    header = (top / "include" / "relock.h").read_text()
    code = "".join(path.read_text() for path in (top / "lib").rglob("*.c"))
    strings = re.sub(r'"\s*\n\s*"', "", code)

    names = ["RELOCK_" + name for name in RESULT.findall(header)]
    names += COUNTER.findall(STATS.search(header)[1])
    quoted = [line for row in ROW.findall(SECTION.search(page)[1]) for line in SPAN.findall(row)]
    wrong = [f"it has no {name}" for name in names if f"`{name}`" not in page]
    for line in quoted:
        # The library puts two texts together at such a place.
        wrong += [f"no log line contains {part!r}" for part in line.split(" lock: ")
                  if part not in strings]
    print("\n".join(wrong) or f"{len(names)} names and {len(quoted)} log lines")
    return 1 if wrong or not names or not quoted else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
