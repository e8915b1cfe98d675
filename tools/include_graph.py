#!/usr/bin/env python3
"""Draws the folders of lib/, and which of them include which.

    include_graph.py TOP           prints the figure
    include_graph.py TOP --write   puts it into docs/design.md, between the two markers
    include_graph.py TOP --check   ends with 1 if the page has another one
    include_graph.py TOP --count   prints how many functions of a folder another folder uses

A row is a folder; an x in its row stands in the column of a folder that it includes.
"""
import pathlib
import re
import sys

PAGE = "docs/design.md"
FOLDERS = [  # from the top down
    "", "group", "deadlock", "look", "count", "kind",
    "lock/async", "lock/call", "lock/hold", "lock/wake", "lock/state",
    "redis/io", "redis/deployment", "redis/lane", "redis/connect", "redis/server", "base",
]
MARKERS = re.compile(r"(<!-- tools/include_graph\.py -->\n).*?(<!-- end of the graph -->\n)", re.S)
COMMENT_OR_STRING = re.compile(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
DEFINITION = re.compile(r"^(?!static (?!inline))[a-z_][\w *]*?(relock_\w+)\([^;{]*\{", re.M)


def sources(top):
    """Each folder of lib/ with the texts of its files."""
    return {folder: [path.read_text() for path in sorted((top / "lib" / folder).glob("*.[ch]"))]
            for folder in FOLDERS}


def includes(texts):
    """The folders that each folder includes, each with a mark."""
    found = {}
    for folder, files in texts.items():
        used = re.findall(r'^\s*#\s*include\s+"([^"]+)/[^"/]+"', "".join(files), re.M)
        found[folder] = {other: "x" for other in used if other in FOLDERS}
    return found


def crossings(texts):
    """How many functions of each other folder a folder uses."""
    code = {folder: COMMENT_OR_STRING.sub("", "\n".join(files)) for folder, files in texts.items()}
    defined = {folder: set(DEFINITION.findall(text)) for folder, text in code.items()}
    used = {folder: set(re.findall(r"(?<!struct )\brelock_\w+", text))
            for folder, text in code.items()}
    counts = {folder: {other: len(used[folder] & defined[other]) for other in FOLDERS}
              for folder in FOLDERS}
    return {folder: {other: str(n) for other, n in row.items() if n} for folder, row in counts.items()}


def draw(rows):
    """A table of folders; what a folder has for itself is left out."""
    numbers = range(1, len(FOLDERS) + 1)
    lines = [" " * 26 + "".join(f"{n:4}" for n in numbers)]
    for n, folder in zip(numbers, FOLDERS):
        cells = ["" if other == folder else rows[folder].get(other, "") for other in FOLDERS]
        lines.append(f"    {n:2}  lib/{folder or '*.c':14}" + "".join(f"{cell:>4}" for cell in cells))
    return "".join(line.rstrip() + "\n" for line in lines)


def main(top, action):
    if action == "--count":
        print(draw(crossings(sources(top))), end="")
        return 0
    graph = draw(includes(sources(top)))
    page = top / PAGE
    old = page.read_text()
    new, n_found = MARKERS.subn(lambda found: f"{found[1]}\n{graph}\n{found[2]}", old)
    if action is None:
        print(graph, end="")
    elif n_found != 1:
        print(f"{PAGE} has {n_found} places for the graph")
        return 1
    elif action == "--write":
        page.write_text(new)
    elif new != old:
        print(f"{PAGE} has an old graph: run tools/include_graph.py . --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None))
