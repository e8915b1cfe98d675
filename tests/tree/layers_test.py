#!/usr/bin/env python3
"""What the sources may include and mention.

usage: layers_test.py TOP

Each folder of lib/ includes itself and the folders before it, and calls nothing above; lib/*.c stand
above all of them. hiredis, libev and OpenSSL are known in lib/redis alone, uthash and utlist to one
header alone, and lib/lock does not mention what is built on it. A function that is neither static nor
public is declared once, in a header of its folder. What the files of a folder share, and nobody else,
is in its private.h, which only they and their tests include. The public header needs no other header. One module opens all descriptors, so
that none is 0, 1 or 2, and closes them, so that a forked child knows which are open.
"""
import pathlib
import re
import sys

LAYERS = [
    "base",
    "redis/server", "redis/connect", "redis/lane", "redis/deployment", "redis/io",
    "lock/state", "lock/wake", "lock/hold", "lock/call", "lock/async",
    "kind", "count", "look", "deadlock", "group", "",
]
REDIS_ONLY = r"hiredis/.*|ev\.h|openssl/.*"
ONE_HEADER = r"ut(hash|list|array|string)\.h"
GENERATED = ["scripts.h"]
PRIVATE = "private.h"
TESTS = ["tests/unit/{}/", "tests/server/{}/", "tests/unit/common/", "tests/fuzz/"]
OTHER_TESTS = {"tests/server/tasks_test.c": "redis/io", "tests/faults/renew_now.h": "lock/hold"}
OPENS_ALL = "base/descriptor.c"
OPENS = (r"(?<![\w.>])(?:socket|socketpair|accept4?|eventfd|epoll_create1?|signalfd|timerfd_create|pipe2?|open|openat|"
         r"fopen|fdopen|opendir|popen|close|dup|dup2|dup3|memfd_create|inotify_init1?|pidfd_open|shm_open)\s*\(|\bF_DUPFD")
NOT_IN_LOCK = r"(?i)(?<![a-z])(vote|votes|tally|tallies|member|members|group|groups)(?![a-z])"


def layer_of(name):
    folder, slash, _ = name.rpartition("/")
    return folder if slash else ""


def includes(path):
    """Each include as ('"' or '<', included file)."""
    return re.findall(r'^\s*#\s*include\s+(["<])([^">]+)[">]', path.read_text(), re.M)


def is_upward(name, used):
    if layer_of(used) not in LAYERS or layer_of(name) not in LAYERS:
        return True
    return LAYERS.index(layer_of(used)) > LAYERS.index(layer_of(name))


def is_below(name, folder):
    return layer_of(name).split("/")[0] == folder


def read(top):
    """Each source below lib/ by its name there."""
    paths = sorted((top / "lib").rglob("*.[ch]"))
    return {str(path.relative_to(top / "lib")): path for path in paths}


def check_includes(sources):
    wrong, table_headers = [], set()
    for name, path in sources.items():
        for quote, used in includes(path):
            if quote == '"' and used not in GENERATED:
                if used not in sources:
                    wrong.append(f"{name}: {used} is not below lib/")
                elif is_upward(name, used):
                    wrong.append(f"{name}: {used} is above this layer")
            if quote == "<" and re.fullmatch(REDIS_ONLY, used) and not is_below(name, "redis"):
                wrong.append(f"{name}: {used} belongs to lib/redis")
            if re.fullmatch(ONE_HEADER, used):
                table_headers.add(name)
    if len(table_headers) > 1 or any(not name.endswith(".h") for name in table_headers):
        wrong.append(f"uthash and utlist belong to one header: {', '.join(sorted(table_headers))}")
    return wrong


def text_of(path):
    """The words of a source, without those of the public header."""
    return re.sub(r"failed_member", "", path.read_text()).replace("_", " ")


def check_mentions(sources):
    wrong = []
    for name, path in sources.items():
        words = sorted({m[0] for m in re.finditer(NOT_IN_LOCK, text_of(path))})
        if is_below(name, "lock") and words:
            wrong.append(f"{name}: mentions {', '.join(words)}")
    return wrong


def check_descriptors(sources):
    return [f"{name}: {match[0]} belongs to {OPENS_ALL}" for name, path in sources.items() if name != OPENS_ALL
            for match in re.finditer(OPENS, re.sub(r"/\*.*?\*/|\"[^\"\n]*\"", "", path.read_text(), flags=re.S))]


def statements(path):
    """Each statement outside of functions as (its text, whether a body follows)."""
    text = re.sub(r"/\*.*?\*/|'[{}]'|extern \"C\" \{", "", path.read_text(), flags=re.S)
    text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.M)
    depth, begin = 0, 0
    for at in re.finditer(r"[{};]", text):
        if depth == 0 and at[0] != "}":
            yield text[begin:at.start()], at[0] == "{"
        depth += {"{": 1, "}": -1, ";": 0}[at[0]]
        if depth == 0:
            begin = at.end()


def functions(path, defined):
    """The functions that it defines or declares and that are not static."""
    found = (re.search(r"\b(relock_\w+)\s*\(", text) for text, has_body in statements(path)
             if has_body == defined and not re.search(r"\b(static|typedef)\b|=", text))
    return {match[1] for match in found if match}


def check_headers(top, sources):
    wrong = []
    public = functions(top / "include" / "relock.h", False)
    for folder in LAYERS:
        names = [name for name in sources if layer_of(name) == folder]
        declared, defined = {}, {}
        for name in names:
            for function in functions(sources[name], False) if name.endswith(".h") else ():
                if function in declared:
                    wrong.append(f"{name}: {function} is also in {declared[function]}")
                declared[function] = name
            if name.endswith(".c"):
                defined.update({function: name for function in functions(sources[name], True)})
        wrong += [f"{declared[function]}: {function} is in no .c of the folder"
                  for function in sorted(declared.keys() - defined.keys())]
        wrong += [f"{defined[function]}: {function} is in no header of the folder, nor static, nor public"
                  for function in sorted(defined.keys() - declared.keys() - public)]
    return wrong


def check_private(top, sources):
    wrong = []
    for name, path in sources.items():
        for _, used in includes(path):
            if used.rpartition("/")[2] != PRIVATE:
                continue
            if layer_of(used) != layer_of(name):
                wrong.append(f"{name}: {used} belongs to the files of its folder")
            elif name.endswith(".h"):
                wrong.append(f"{name}: others include this, so they would see {used}")
    for path in sorted((top / "tests").rglob("*.[ch]")):
        name = str(path.relative_to(top))
        for _, used in includes(path):
            folder, _, header = used.rpartition("/")
            may = OTHER_TESTS.get(name) == folder or any(name.startswith(below.format(folder)) for below in TESTS)
            if header == PRIVATE and not may:
                wrong.append(f"{name}: {used} belongs to its folder and the tests of that")
    return wrong


def code_of(path):
    """The text of a source without its comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.S)


def check_calls(sources):
    """No file calls a function, or takes its address, that a higher folder defines."""
    defined = {function: name for name, path in sources.items() if name.endswith(".c")
               for function in functions(path, True)}
    wrong = []
    for name, path in sources.items():
        used = set(re.findall(r"(?<!struct )\brelock_\w+", code_of(path))) & defined.keys()
        wrong += [f"{name}: {function} is in {defined[function]}, above this layer"
                  for function in sorted(used) if is_upward(name, defined[function])
                  and function not in functions(path, False)]
    return wrong


def check_public(top):
    return [f"include/relock.h: {used} is more than the language has"
            for quote, used in includes(top / "include" / "relock.h")
            if quote == '"' or used not in ("stdbool.h", "stddef.h", "stdint.h")]


def main(top):
    sources = read(top)
    wrong = check_includes(sources) + check_mentions(sources) + check_descriptors(sources)
    wrong += check_calls(sources) + check_headers(top, sources) + check_private(top, sources)
    wrong += check_public(top)
    if not sources:
        wrong.append(f"no sources below {top}/lib")
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1])))
