#!/usr/bin/env python3
"""Draws the include graph of lib/: the modules of each folder, and the folders that it includes.

    include_graph.py TOP           prints the graph
    include_graph.py TOP --write   puts it into docs/design.md, between the two markers
    include_graph.py TOP --check   ends with 1 if the page has another one

A module is a .c and its .h. Within a folder, a line of modules includes only lines below it.
"""
import pathlib
import re
import sys
import textwrap

PAGE = "docs/design.md"
FOLDERS = [  # from the top down
    "", "group", "look", "kind",
    "lock/async", "lock/call", "lock/deadlock", "lock/hold", "lock/wake", "lock/state",
    "redis/io", "redis/deployment", "redis/lane", "redis/connect", "redis/server", "base",
]
MARKERS = re.compile(r"(<!-- tools/include_graph\.py -->\n).*?(<!-- end of the graph -->\n)", re.S)
INDENT = " " * 4
LABEL = 22
WIDTH = 100


def read(top):
    """The modules below lib/, each with the modules that it includes."""
    lib = top / "lib"
    graph = {}
    for path in sorted(lib.rglob("*.[ch]")):
        used = re.findall(r'^\s*#\s*include\s+"([^"]+)\.h"', path.read_text(), re.M)
        graph.setdefault(str(path.relative_to(lib).with_suffix("")), set()).update(used)
    return {module: (used - {module}) & graph.keys() for module, used in graph.items()}


def folder_of(module):
    return module.rpartition("/")[0]


def depth(graph, module, above=()):
    """The longest way down within the folder of a module; a ring is not gone round."""
    below = [other for other in graph[module] if folder_of(other) == folder_of(module)]
    deeper = [depth(graph, other, (*above, module)) for other in below if other not in above]
    return 1 + max(deeper, default=-1)


def block(label, text):
    """A label, and beside it a text of as many lines as it takes."""
    return textwrap.fill(text, WIDTH, initial_indent=INDENT + label.ljust(LABEL),
                         subsequent_indent=INDENT + " " * LABEL, break_on_hyphens=False)


def draw(graph):
    modules = {folder: [] for folder in FOLDERS}
    uses = {folder: set() for folder in FOLDERS}
    for module, used in graph.items():
        modules[folder_of(module)].append(module)
        uses[folder_of(module)].update(folder_of(other) for other in used)
    lines = []
    for folder in FOLDERS:
        rows = {}
        for module in modules[folder]:
            rows.setdefault(depth(graph, module), []).append(module.rpartition("/")[2])
        label = f"lib/{folder or '*.c'}"
        for level in sorted(rows, reverse=True):
            lines.append(block(label, " ".join(rows[level])))
            label = ""
        below = [f"lib/{other}" for other in FOLDERS if other in uses[folder] - {folder}]
        lines.append(block("", f"-> {', '.join(below)}" if below else "-> nothing of lib/") + "\n")
    return "\n".join(lines)


def main(top, action):
    graph = draw(read(top))
    page = top / PAGE
    old = page.read_text()
    new, n_found = MARKERS.subn(lambda found: f"{found[1]}\n{graph}\n{found[2]}", old)
    if action is None:
        print(graph)
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
