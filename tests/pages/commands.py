#!/usr/bin/env python3
"""Prints a bash script that runs the commands of README.md and docs/*.md, in the order of the pages.

    commands.py TOP             prints the script
    commands.py TOP --check     ends with 1 if a mark is wrong, or if bash cannot read a command

An indented block of a page is commands; text and code are in fences. A block is not run
again if all of its lines have been. A comment above a block can mark it:

    <!-- not run: REASON -->      it is an illustration, or no command
    <!-- stays: TEXT -->          it runs until the end; the next command waits until it prints TEXT
    <!-- answer: TEXT -->         it asks on a terminal, and this is the answer
    <!-- page not run: REASON --> anywhere on a page: for all of its blocks
"""
import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
BLOCK = re.compile(r"(?:^[ ]*<!-- ([^>]*?) -->\n+)?(?<=\n\n)((?:    .*\n|\n(?=    ))+)", re.M)
MARK = re.compile(r"<!-- ((?:page )?(?:not run|stays|answer)\b[^>]*?) -->")
KINDS = ("not run", "stays", "answer")


def blocks_of(page):
    """Line, mark and text of each block of commands, and how many marks the page has."""
    text = FENCE.sub(lambda found: "\n".join("x" * len(found[0].split("\n"))), page.read_text())
    marks = MARK.findall(text)
    if any(mark.startswith("page not run: ") for mark in marks):
        return [], len(marks) - 1
    return [(text.count("\n", 0, found.start(2)) + 1, found[1] or "",
             re.sub(r"^    ", "", found[2], flags=re.M).strip("\n"))
            for found in BLOCK.finditer(text)], len(marks)


def call(place, mark, text):
    """The lines of the script for a block."""
    kind, _, detail = mark.partition(": ")
    lines = [f"begin {place} {shlex.quote(text)}"]
    if kind == "stays":
        return lines + [f"stays {shlex.quote(text)} {shlex.quote(detail)}"]
    if kind == "answer":
        return lines + [f"answer {shlex.quote(text)} {shlex.quote(detail)}"]
    return lines + [text, "succeeded $?"]


def script_of(top):
    lines, seen, wrong = [(HERE / "prelude.sh").read_text()], set(), []
    for page in [top / "README.md", *sorted((top / "docs").glob("*.md"))]:
        name = page.relative_to(top)
        blocks, n_marks = blocks_of(page)
        lines += [] if page.name == "README.md" else ["cd ~/relock"]
        for line, mark, text in blocks:
            kind = mark.partition(": ")[0]
            n_marks -= kind in KINDS
            if mark and kind not in KINDS:
                wrong.append(f"{name}:{line}: there is no mark {kind!r}")
            if kind != "not run" and not seen.issuperset(text.split("\n")):
                lines += call(f"{name}:{line}", mark, text)
                seen.update(text.split("\n"))
        if n_marks:
            wrong.append(f"{name}: {n_marks} marks belong to no block")
    return "\n".join(lines + ["finish"]) + "\n", wrong


def main(top, option=None):
    script, wrong = script_of(pathlib.Path(top))
    if wrong:
        sys.exit("\n".join(wrong))
    if option == "--check":
        return subprocess.run(["bash", "-n"], input=script, text=True).returncode
    print(script, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
