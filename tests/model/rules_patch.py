#!/usr/bin/env python3
"""Takes rules of the protocols out of a tree: applies the patches of rules/.

    rules_patch.py TREE RULE    changes the files of TREE, and prints their names
    rules_patch.py --check      prints each patch that does not apply to this tree, and where its text
                                stands now
    rules_patch.py --places     prints "RULE: PLACE" for each place that a patch changes

A patch is a sentence, and then hunks:

    @@ PLACE @@
     context
    -removed
    +added

PLACE is a function, a table, a struct, an enum or a macro below lib/, or a file of scripts/. No file
or line is named, so code can move and lines can be indented anew. The context and the removed lines
must stand once, one after the other, in what has that name.
"""
import functools
import pathlib
import re
import sys

RULES = pathlib.Path(__file__).parent / "rules"
TOP = pathlib.Path(__file__).parents[2]
PLACE = re.compile(r"@@ (\S+) @@")
BEGIN = re.compile(r"[A-Za-z_]")
MACRO = re.compile(r"#\s*define (\w+)")
NAMES = (re.compile(r"(\w+)(?:\[\w*\])* = "), re.compile(r"^(?:struct|enum) (\w+) \{"),
         re.compile(r"\b([a-z]\w*)\("))


def name_of(head):
    """What the first lines of a definition define."""
    found = next((found for name in NAMES if (found := name.search(head))), None)
    return found[1] if found else None


def definitions(lines):
    """Each definition of a C file as (its name, its first line, the line behind its last)."""
    at = 0
    while at < len(lines):
        begin = at
        macro = MACRO.match(lines[at])
        at += 1
        if macro:
            while lines[at - 1].endswith("\\"):
                at += 1
            yield macro[1], begin, at
        elif BEGIN.match(lines[begin]):
            while at < len(lines) and lines[at - 1][-1] not in ";{" and lines[at][:1] not in "#":
                at += 1
            head = " ".join(lines[begin:at])
            if lines[at - 1].endswith("{"):
                while at < len(lines) and not lines[at - 1].startswith("}"):
                    at += 1
            yield name_of(head), begin, at


@functools.cache
def defined(tree):
    """Each C file with its lines and definitions. apply() changes files and clears the cache."""
    files = [(path, path.read_text().splitlines()) for path in sorted((tree / "lib").rglob("*.[ch]"))]
    return [(path, lines, list(definitions(lines))) for path, lines in files]


def places(tree, name):
    """Each file that defines the name, with its lines and the range of the definition."""
    if name.endswith(".lua"):
        path = tree / "scripts" / name
        if path.exists():
            lines = path.read_text().splitlines()
            yield path, lines, 0, len(lines)
        return
    for path, lines, found in defined(tree):
        for its_name, begin, end in found:
            if its_name == name:
                yield path, lines, begin, end


def parse(rule):
    """The hunks of a patch, each as (place, lines)."""
    hunks = []
    for line in (RULES / f"{rule}.patch").read_text().splitlines():
        place = PLACE.fullmatch(line)
        if place:
            hunks.append((place[1], []))
        elif hunks:
            hunks[-1][1].append(line or " ")
    return hunks


def squeeze(line):
    return " ".join(line.split())


def matches(old, lines, begin, end):
    """Where the old lines of a hunk stand in a range, however they are indented."""
    wanted = [squeeze(line) for line in old]
    return [at for at in range(begin, end - len(old) + 1)
            if [squeeze(line) for line in lines[at:at + len(old)]] == wanted]


def find(tree, place, old):
    """Returns (path, lines, first line) of the one match, or a text that says why there is none."""
    all_places = list(places(tree, place))
    found = [(path, lines, at) for path, lines, begin, end in all_places
             for at in matches(old, lines, begin, end)]
    if len(found) == 1:
        return found[0]
    if found:
        return f"its text stands {len(found)} times in {place}"
    if not all_places:
        return f"there is no {place}"
    return f"{place} has another text"


def replaced(hunk, lines, at):
    """The lines, in which a hunk is applied. Context keeps the form that it has in the lines."""
    new = []
    end = at
    for line in hunk:
        if line[0] == "+":
            new.append(line[1:])
            continue
        if line[0] == " ":
            new.append(lines[end])
        end += 1
    return lines[:at] + new + lines[end:]


def apply(tree, rule):
    """Changes the tree. Returns the files; or, with the tree as it was, a text that says why not."""
    before = {}
    for place, hunk in parse(rule):
        found = find(tree, place, [line[1:] for line in hunk if line[0] in " -"])
        if isinstance(found, str):
            for path, text in before.items():
                path.write_text(text)
            return found
        path, lines, at = found
        before.setdefault(path, path.read_text())
        path.write_text("\n".join(replaced(hunk, lines, at)) + "\n")
        defined.cache_clear()
    return [path.relative_to(tree) for path in before] or "it has no hunk"


def whereabouts(tree, hunk):
    """Where most of the old lines of a hunk stand now, wherever that is."""
    old = {squeeze(line[1:]) for line in hunk if line[0] in " -" and len(squeeze(line[1:])) > 3}
    best = (0, "nowhere")
    for path in [*(tree / "lib").rglob("*.[ch]"), *(tree / "scripts").glob("*.lua")]:
        lines = [squeeze(line) for line in path.read_text().splitlines()]
        for at in range(len(lines)):
            n_found = len(old.intersection(lines[at:at + len(hunk)]))
            if n_found > best[0]:
                best = (n_found, f"{path.relative_to(tree)}:{at + 1}, {n_found} of {len(old)} lines")
    return best[1]


def rules():
    return sorted(path.stem for path in RULES.glob("*.patch"))


def check():
    wrong = []
    for rule in rules():
        hunks = parse(rule)
        if not hunks:
            wrong.append(f"{rule}: it has no hunk")
        for place, hunk in hunks:
            found = find(TOP, place, [line[1:] for line in hunk if line[0] in " -"])
            if isinstance(found, str):
                wrong.append(f"{rule}: does not apply: {found}; see {whereabouts(TOP, hunk)}")
    print("\n".join(wrong))
    return bool(wrong)


def main(words):
    if words == ["--check"]:
        return check()
    if words == ["--places"]:
        print("\n".join(sorted({f"{rule}: {place}" for rule in rules() for place, _ in parse(rule)})))
        return 0
    if len(words) != 2:
        print(__doc__)
        return 2
    done = apply(pathlib.Path(words[0]), words[1])
    print(done if isinstance(done, str) else "\n".join(map(str, done)))
    return isinstance(done, str)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
