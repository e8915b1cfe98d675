#!/usr/bin/env python3
"""The Lua scripts are embedded byte for byte, under the hash that Redis knows them by.

usage: scripts_test.py SCRIPTS.h SCRIPT.lua...

Each says in its head what it takes and returns, and the keys and arguments that it uses are those.
"""
import hashlib
import pathlib
import re
import sys

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


def numbers(pattern, text):
    return sorted(set(map(int, re.findall(pattern, text))))


def wrong_with_head(script):
    head, end, code = script.partition("]]\n")
    if not head.startswith("--[[\n") or not end:
        yield "does not begin with a comment"
    for kind in ("KEYS", "ARGV"):
        told, used = (numbers(rf"{kind}\[(\d+)\]", text) for text in (head, code))
        if told != used:
            yield f"says {kind} {told} and uses {used}"
    if "\nReturns  " not in head:
        yield "does not say what it returns"


def main(header, *paths):
    rows, wrong = embedded(pathlib.Path(header)), []
    for path in map(pathlib.Path, paths):
        script = path.read_bytes()
        sha1, body = rows.pop(path.stem, ("", ""))
        if sha1 != hashlib.sha1(script).hexdigest():
            wrong.append(f"{path.name}: embedded under another hash, or not at all")
        if body.encode() != script:
            wrong.append(f"{path.name}: embedded with other bytes")
        wrong += [f"{path.name}: {what}" for what in wrong_with_head(script.decode())]
    wrong += [f"{name}: embedded, but no script" for name in rows]
    if not paths:
        wrong.append("no scripts")

    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
