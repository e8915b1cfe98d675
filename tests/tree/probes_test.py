#!/usr/bin/env python3
"""The shared library has the probes that docs/operations.md lists, each with a line for bpftrace.

usage: probes_test.py LIBRARY PAGE
"""
import pathlib
import re
import subprocess
import sys

NOTE = re.compile(r"Provider: relock\n\s+Name: (\w+)")
ROW = re.compile(r"^\| `(\w+)` \| .* \| `usdt:\S+:relock:(\w+) ", re.MULTILINE)
SECTION = re.compile(r"^## Probes\n(.*?)^## ", re.MULTILINE | re.DOTALL)


def main(library, page):
    notes = subprocess.run(["readelf", "--notes", "--wide", library], check=True,
                           capture_output=True, text=True).stdout
    found = set(NOTE.findall(notes))
    rows = ROW.findall(SECTION.search(pathlib.Path(page).read_text())[1])
    listed = {name for name, _ in rows}
    wrong = [f"{page}: no row for {name}" for name in sorted(found - listed)]
    wrong += [f"{library}: no probe {name}" for name in sorted(listed - found)]
    wrong += [f"{page}: the line for {name} traces {other}" for name, other in rows if name != other]
    print("\n".join(wrong) or f"{len(found)} probes")
    return 1 if wrong or not found else 0


sys.exit(main(*sys.argv[1:]))
