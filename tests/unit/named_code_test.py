#!/usr/bin/env python3
"""Checks that the files and functions which the pages about the inside name exist.

docs/design.md has one line for each module of lib/, in a block for its folder:

    `lib/base`:

        clock         monotonic time

    named_code_test.py TOP_OF_THE_REPOSITORY
"""
import pathlib
import re
import sys

PAGES = ["docs/design.md", "docs/life.md"]
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w*/]+\.(?:c|h|lua|pml|py)|(?:lib|tests|tools)(?:/\w+)*")
FUNCTION = re.compile(r"(\w+)\(\)")
MODULES = re.compile(r"\nThe modules, .*?\n## ", re.DOTALL)
FOLDER = re.compile(r"^`lib/([\w*./]+)`")
MODULE = re.compile(r"^    (\w+) {2,}\S")


def exists(top, path):
    """Names are relative to the repository, to lib/ or to scripts/."""
    return any(any((top / below).glob(path)) for below in ("", "lib", "scripts"))


def check_names(top, page, code):
    wrong = []
    for span in SPAN.findall((top / page).read_text()):
        if PATH.fullmatch(span) and not exists(top, span):
            wrong.append(f"{page}: there is no {span}")
        for name in FUNCTION.findall(span):
            if not re.search(rf"\b{name}\(", code):
                wrong.append(f"{page}: there is no function {name}")
    return wrong


def check_steps(top):
    """A static function of life.md is in a file that the same paragraph or list item names."""
    wrong = []
    for step in re.split(r"\n\n|\n *(?:\d+\.|-) ", (top / "docs" / "life.md").read_text()):
        files = [top / "lib" / span for span in SPAN.findall(step) if span.endswith(".c")]
        code = "".join(path.read_text() for path in files if path.exists())
        for name in FUNCTION.findall(step):
            if not name.startswith("relock_") and not re.search(rf"\b{name}\(", code):
                wrong.append(f"docs/life.md: {name} is in none of the files of its step")
    return wrong


def listed(page):
    """The modules that the page lists, as folder/name."""
    modules, folder = set(), ""
    block = MODULES.search(page)
    for line in block[0].splitlines() if block else []:
        if FOLDER.match(line):
            folder = FOLDER.match(line)[1]
        if MODULE.match(line):
            modules.add(f"{folder}/{MODULE.match(line)[1]}".replace("*.c/", ""))
    return modules


def check_modules(top):
    modules = {str(path.relative_to(top / "lib").with_suffix(""))
               for path in (top / "lib").rglob("*.[ch]")}
    page = listed((top / "docs" / "design.md").read_text())
    return ([f"docs/design.md: the list of modules has no line for lib/{name}"
             for name in sorted(modules - page)] +
            [f"docs/design.md: there is no module lib/{name}" for name in sorted(page - modules)])


def main(top):
    code = "".join(path.read_text() for folder in ("lib", "include")
                   for path in (top / folder).rglob("*.[ch]"))
    wrong = check_modules(top) + check_steps(top)
    for page in PAGES:
        wrong += check_names(top, page, code)
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1])))
