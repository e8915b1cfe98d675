#!/usr/bin/env python3
"""Checks that the help of each command fits on a screen, and that the manual page and the completions
have each option and command, and no other; and that docs/wire.md shows what `relock acl` prints.

    pages_test.py RELOCK FOLDER_OF_THE_TOOL DOCS
"""
import pathlib
import re
import subprocess
import sys

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
COMMON = {"--url", "--password-file", "--verbose", "--help", "--json"}
SCREEN = (24, 80)


def help_of(tool, *words):
    return subprocess.run([tool, *words], check=True, capture_output=True, text=True).stdout


def faults(tool, folder, docs):
    page = (docs / "cli.md").read_text()
    rights = subprocess.run([tool, "acl", "reentrant", "--prefix", "orders:"], check=True,
                            env={}, capture_output=True, text=True).stdout
    if f"\n    {rights}\n" not in (docs / "wire.md").read_text():
        yield f"docs/wire.md lacks this line:\n    {rights}"
    top = help_of(tool, "--help")
    commands = re.findall(r"^  (\w+) ", top, re.M)
    manual = (folder / "relock.1").read_text().replace("\\-", "-")
    texts = {"relock.1": manual, "relock.bash": (folder / "completions" / "relock.bash").read_text(),
             "_relock": (folder / "completions" / "_relock").read_text()}
    known = set(COMMON) | {"--version"}
    for command in commands:
        text = help_of(tool, command, "--help")
        known |= set(OPTION.findall(text))
        for text, name in [(top, "relock"), (text, command)]:
            lines = text.splitlines()
            if len(lines) > SCREEN[0] or max(map(len, lines)) > SCREEN[1]:
                yield f"the help of {name} is {len(lines)} x {max(map(len, lines))}"
        if f".SS relock {command}\n" not in manual:
            yield f"relock.1 has no section of {command}"
        if not re.search(rf"relock {command}\b", page):
            yield f"docs/cli.md has no relock {command}"
        for name in ["relock.bash", "_relock"]:
            if not re.search(rf"^\s*'?(\w+ \| |\w+\|)*{command}\b|commands='[^']*\b{command}\b",
                             texts[name], re.M):
                yield f"{name} does not know {command}"
    for name, text in texts.items():
        named = set(OPTION.findall(text))
        yield from (f"{name} lacks {option}" for option in sorted(known - named - {"--version"}))
        yield from (f"{name} has {option}, which no help has" for option in sorted(named - known))


def main(tool, folder, docs):
    wrong = list(faults(tool, pathlib.Path(folder), pathlib.Path(docs)))
    print("\n".join(wrong) or "all there")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
