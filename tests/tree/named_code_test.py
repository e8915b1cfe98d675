#!/usr/bin/env python3
"""Checks that the files and functions which the pages about the inside name exist.

These pages are docs/design.md, docs/life.md and the README.md of each folder of lib/. The README.md
of a folder begins with one line for each of its modules, also where tests share code:

        clock         monotonic time

The head of a model, tests/model/NAME.pml, says which functions of which files it models.

    named_code_test.py TOP_OF_THE_REPOSITORY
"""
import pathlib
import re
import sys

PAGES = ["docs/design.md", "docs/life.md"]
README = "README.md"
SHARED = ["tests/support", "tests/unit/common"]
SPAN = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w*/]+\.(?:c|h|lua|pml|py)|(?:lib|tests|tools)(?:/\w+)*")
FUNCTION = re.compile(r"(\w+)\(\)")
MODULE = re.compile(r"^    (\w+) {2,}\S", re.M)


def exists(top, page, path):
    """Names are relative to the repository, to lib/, to scripts/ or to the folder of the page."""
    return any(any((top / below).glob(path))
               for below in ("", "lib", "scripts", pathlib.PurePath(page).parent))


def check_names(top, page, code):
    wrong = []
    for span in SPAN.findall((top / page).read_text()):
        if PATH.fullmatch(span) and not exists(top, page, span):
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


def check_modules(folder, name):
    """The README.md of a folder has a line for each of its modules, before the first heading."""
    page = folder / README
    if not page.exists():
        return [f"there is no {name}"]
    listed = set(MODULE.findall(page.read_text().partition("\n## ")[0]))
    modules = {path.stem for path in folder.glob("*.[ch]")}
    return ([f"{name}: the list of modules has no line for {module}"
             for module in sorted(modules - listed)] +
            [f"{name}: there is no module {module}" for module in sorted(listed - modules)])


def check_models(top, code):
    wrong = []
    files = [f"/{path.relative_to(top)}" for folder in ("lib", "scripts")
             for path in (top / folder).rglob("*.*")]
    for path in sorted((top / "tests" / "model").glob("*.pml")):
        head = path.read_text().partition("*/")[0]
        wrong += [f"{path.name}: there is no {name}"
                  for name in sorted(set(re.findall(r"[\w/]+\.(?:c|h|lua)\b", head)))
                  if not any(path.endswith(f"/{name}") for path in files)]
        wrong += [f"{path.name}: there is no function {name}"
                  for name in sorted(set(re.findall(r"\brelock_\w+\b", head)))
                  if not re.search(rf"\b{name}\(", code)]
    return wrong


def main(top):
    code = "".join(path.read_text() for folder in ("lib", "include")
                   for path in (top / folder).rglob("*.[ch]"))
    wrong = check_steps(top)
    folders = {path.parent for path in (top / "lib").rglob("*.[ch]")} | {top / name for name in SHARED}
    for folder in sorted(folders):
        wrong += check_modules(folder, str((folder / README).relative_to(top)))
    for page in PAGES + [str(path.relative_to(top)) for path in (top / "lib").rglob(README)]:
        wrong += check_names(top, page, code)
    wrong += check_models(top, code)
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1])))
