#!/usr/bin/env python3
"""Checks that docs/results.md has every result, counter and log line, and quotes lines as they are.

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
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
CALL = re.compile(rf"\brelock_log_(?:write|cause|about)\(((?:{STRING.pattern}|[^;\"])*)\);")
OWNER = "%s: owner %llu: %s: %s%s%s"


def parts_of(quoted):
    """The library puts the texts of a line together at such a place."""
    return [part for line in quoted for part in line.split(" lock: ")]


def unlisted(strings, parts):
    """The log lines that no row quotes. Lines of level debug need no row, nor do lines that get all
    their words from elsewhere."""
    calls = [found[0] for found in CALL.findall(strings) if "RELOCK_LOG_DEBUG" not in found[0]]
    lines = [" ".join(STRING.findall(call)) for call in calls]
    return [line for line in lines if re.search("[a-z]", line.replace(OWNER, "").replace("%s", ""))
            and not any(part in line for part in parts)]


def main(top):
    page = (top / "docs" / "results.md").read_text()
    header = (top / "include" / "relock.h").read_text()
    code = "".join(path.read_text() for path in (top / "lib").rglob("*.c"))
    strings = re.sub(r'"\s*\n\s*"', "", code)

    names = ["RELOCK_" + name for name in RESULT.findall(header)]
    names += COUNTER.findall(STATS.search(header)[1])
    quoted = [line for row in ROW.findall(SECTION.search(page)[1]) for line in SPAN.findall(row)]
    wrong = [f"it has no {name}" for name in names if f"`{name}`" not in page]
    parts = parts_of(quoted)
    wrong += [f"no log line contains {part!r}" for part in parts if part not in strings]
    wrong += [f"no row is for the log line {text!r}" for text in unlisted(strings, parts)]
    print("\n".join(wrong) or f"{len(names)} names and {len(quoted)} log lines")
    return 1 if wrong or not names or not quoted else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
