#!/usr/bin/env python3
"""Checks that code excerpts in the pages are the same as in their sources, line by line.

An excerpt follows the line `<!-- examples/name.c -->` in a Markdown page; any file may be named.

    excerpts_test.py TOP_OF_THE_REPOSITORY
"""
import pathlib
import re
import sys

EXCERPT = re.compile(r"^<!-- (\S+) -->\n```\w*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def main():
    top = pathlib.Path(sys.argv[1])
    n_excerpts = 0
    wrong = []
    pages = [top / "README.md", top / "tests" / "README.md", *sorted((top / "docs").glob("*.md"))]
    for page in pages:
        for source, code in EXCERPT.findall(page.read_text()):
            n_excerpts += 1
            if code not in (top / source).read_text():
                wrong.append(f"{page.relative_to(top)}: not in {source}:\n{code}")
    print("\n".join(wrong) or f"{n_excerpts} excerpts")
    return 1 if wrong or n_excerpts == 0 else 0


sys.exit(main())
