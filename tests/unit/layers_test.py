#!/usr/bin/env python3
"""What the sources may include.

usage: layers_test.py TOP

Each layer of lib/ includes itself and the layers below it. hiredis and libev are known below
lib/redis/ alone, uthash and utlist to one header alone, and the public header needs nobody.
"""
import pathlib
import re
import sys

LAYERS = ["base", "redis", "lock"]
REDIS_ONLY = r"hiredis/.*|ev\.h"
ONE_HEADER = r"ut(hash|list|array|string)\.h"
GENERATED = ["scripts.h"]


def includes(path):
    """Each include as ('"' or '<', what is included)."""
    return re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', path.read_text(), re.M)


def ours(level, used):
    if used in GENERATED:
        return None
    layer, slash, _ = used.partition("/")
    if not slash or layer not in LAYERS:
        return "says no layer"
    if LAYERS.index(layer) > level:
        return "is above this layer"
    return None


def theirs(layer, used):
    if re.fullmatch(REDIS_ONLY, used) and layer != "redis":
        return "belongs below lib/redis/"
    return None


def main(top):
    wrong, table_headers, n_files = [], set(), 0
    for level, layer in enumerate(LAYERS):
        for path in sorted((top / "lib" / layer).rglob("*.[ch]")):
            n_files += 1
            for quote, used in includes(path):
                why = ours(level, used) if quote == '"' else theirs(layer, used)
                if why:
                    wrong.append(f"{path.relative_to(top)}: {used} {why}")
                if re.fullmatch(ONE_HEADER, used):
                    table_headers.add(str(path.relative_to(top)))

    if len(table_headers) > 1 or any(not name.endswith(".h") for name in table_headers):
        wrong.append(f"uthash and utlist belong to one header: {', '.join(sorted(table_headers))}")
    for quote, used in includes(top / "include" / "relock.h"):
        if quote == '"' or used not in ("stdbool.h", "stddef.h", "stdint.h"):
            wrong.append(f"include/relock.h: {used} is more than the language has")
    if n_files == 0:
        wrong.append(f"no sources below {top}/lib")

    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1])))
