#!/usr/bin/env python3
"""The Lua scripts are embedded byte for byte, under the hash that Redis knows them by.

usage: scripts_test.py embed.py SCRIPTS.h SCRIPT.lua...

In place of a line "--+ PART.lua" stands that part, without its head; in one of "--+ PART.lua NAME =
TEXT", TEXT stands in it for NAME. Each script says in its head
what it takes and returns. The keys and arguments that it uses are those of its head and of the heads
of its parts.
"""
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

ROW = re.compile(r'XX\((\w+), "([0-9a-f]*)",((?:\s*"(?:[^"\\]|\\.)*")+)\)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", '"': '"'}


def embedded(header):
    """The rows of the table as a compiler reads them: name -> (hash, body)."""
    lines = header.read_text().replace("\\\n", "\n")
    rows = {}
    for name, sha1, strings in ROW.findall(lines):
        text = "".join(STRING.findall(strings))
        rows[name] = sha1, re.sub(r"\\(.)", lambda match: ESCAPED[match[1]], text)
    return rows


def written_by(embed, paths):
    """The scripts that are installed: name -> text."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([embed, folder, *paths], check=True)
        return {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}


def numbers(pattern, text):
    return sorted(set(map(int, re.findall(pattern, text))))


def head_and_code(path):
    head, end, code = path.read_text().partition("]]\n")
    return (head, code) if head.startswith("--[[\n") and end else ("", head + end + code)


def heads_and_code(path):
    """The heads of a script and of its parts, and its code with theirs."""
    first, code = head_and_code(path)
    heads, lines = [first], []
    for line in code.splitlines():
        indent, is_part, part = line.partition("--+ ")
        if not is_part:
            lines.append(line)
            continue
        name, _, argument = part.partition(" ")
        others, inner = heads_and_code(path.parent / name)
        if argument:
            word, text = argument.split(" = ", 1)
            inner = text.join(re.split(rf"\b{word}\b", inner))
        heads += others
        lines += [indent + below if below else "" for below in inner.splitlines()]
    return heads, "".join(line + "\n" for line in lines)


def wrong_with_heads(heads, code):
    if not all(heads):
        yield "does not begin with a comment, or a part of it does not"
    for kind in ("KEYS", "ARGV"):
        told, used = (numbers(rf"{kind}\[(\d+)\]", text) for text in ("".join(heads), code))
        if told != used:
            yield f"says {kind} {told} and uses {used}"
    if "\nReturns  " not in heads[0]:
        yield "does not say what it returns"


def main(embed, header, *paths):
    rows, written, wrong = embedded(pathlib.Path(header)), written_by(embed, paths), []
    for path in map(pathlib.Path, paths):
        heads, code = heads_and_code(path)
        script = heads[0] + "]]\n" + code
        sha1, body = rows.pop(path.stem, ("", ""))
        if sha1 != hashlib.sha1(script.encode()).hexdigest():
            wrong.append(f"{path.name}: embedded under another hash, or not at all")
        if body != script:
            wrong.append(f"{path.name}: embedded with other bytes")
        if written[path.name] != script:
            wrong.append(f"{path.name}: written with other bytes")
        wrong += [f"{path.name}: {what}" for what in wrong_with_heads(heads, code)]
    wrong += [f"{name}: embedded, but no script" for name in rows]
    if not paths:
        wrong.append("no scripts")
    elif subprocess.check_output([embed, paths[0]], text=True) != written[pathlib.Path(paths[0]).name]:
        wrong.append(f"{paths[0]}: printed with other bytes")

    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
