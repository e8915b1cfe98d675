#!/usr/bin/env python3
"""The public header compiles alone, twice over, and strictly.

usage: header_test.py FOLDER LANGUAGE STANDARD COMPILER...
"""
import subprocess
import sys

PROGRAM = """
#include <relock.h>
#include <relock.h>

int nested(struct relock_lock *lock);
int nested(struct relock_lock *lock)
{
    int result = relock_lock(lock);

    if (result != RELOCK_OK)
        return result;
    RELOCK_SCOPE(lock);
    {
        RELOCK_SCOPE(NULL);
        RELOCK_SCOPE(lock);
        return RELOCK_OK;
    }
}
"""

STRICT = ["-pedantic", "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Werror"]


def main(folder, language, standard, *compiler):
    command = [*compiler, "-x", language, f"-std={standard}", *STRICT, "-fsyntax-only"]
    return subprocess.run([*command, "-I", folder, "-"], input=PROGRAM, text=True).returncode


sys.exit(main(*sys.argv[1:]))
