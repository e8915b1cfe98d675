#!/usr/bin/env python3
"""Code that a page takes from an example stands there, line by line.

An excerpt follows the line `<!-- examples/name.c -->` in a Markdown page:

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
    for page in [top / "README.md", *sorted((top / "docs").glob("*.md"))]:
        for source, code in EXCERPT.findall(page.read_text()):
            n_excerpts += 1
            if code not in (top / source).read_text():
                wrong.append(f"{page.name}: not in {source}:\n{code}")
    print("\n".join(wrong) or f"{n_excerpts} excerpts")
    return 1 if wrong or n_excerpts == 0 else 0


sys.exit(main())
