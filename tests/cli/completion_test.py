#!/usr/bin/env python3
"""Types the beginnings of commands at bash and zsh, and looks at what they complete.

    completion_test.py FOLDER_OF_THE_COMPLETIONS

Ends with 77 if there is no zsh, after the test with bash.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import sys
import time

WITHIN_S = 60

# What is typed before the tab, and what a shell then completes or lists.
CASES = [
    ("relock wat", ["relock watch"]),
    ("relock wa", ["waiters", "watch"]),
    ("relock run --once", ["relock run --once-per"]),
    ("relock run --on-lost k", ["relock run --on-lost kill"]),
    ("relock run --nonb", ["relock run --nonblock"]),
    ("relock run --perm", ["relock run --permits"]),
    ("relock help doc", ["relock help doctor"]),
    ("relock status --js", ["relock status --json"]),
    ("relock doctor --na", ["relock doctor --name"]),
    ("relock doctor --kind fen", ["relock doctor --kind fenced"]),
    ("relock acl spin ann", ["relock acl spin announced-plain"]),
    ("relock run --fair nightly -- unam", ["relock run --fair nightly -- uname"]),
    ("relock run nightly -- cat /etc/passw", ["/etc/passwd"]),
]

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {}/relock.bash"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({} $fpath); autoload -Uz compinit; compinit -u -D"),
}


class Shell:
    """A shell on a terminal of its own. It ends with this process."""

    def __init__(self, argv):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", PS1="$ ", HISTFILE="", COLUMNS="120")
            os.execvp(argv[0], argv)

    def type(self, keys):
        os.write(self.terminal, keys.encode())

    def shows(self, texts):
        """Whether all of these appear, and what has appeared."""
        shown, deadline = "", time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            if select.select([self.terminal], [], [], 1)[0]:
                shown += os.read(self.terminal, 4096).decode(errors="replace")
            plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\a]", "", shown)
            if all(text in plain for text in texts):
                return True, plain
        return False, plain

    def end(self):
        os.close(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def faults(name, folder):
    argv, load = SHELLS[name]
    shell = Shell(argv)
    shell.type(load.format(folder) + "; echo is''ready\n")
    ready, shown = shell.shows(["isready"])
    if not ready:
        yield f"{name} does not start: {shown}"
    for typed, expected in CASES if ready else []:
        shell.type(typed + "\t\t")
        found, shown = shell.shows(expected)
        if not found:
            yield f"{name}: {typed!r} shows {shown!r}"
        shell.type("\x15\n")  # empties the line
    shell.end()


def main(folder):
    folder, wrong = pathlib.Path(folder).resolve(), []
    for name in SHELLS:
        if shutil.which(name):
            wrong += faults(name, folder)
    print("\n".join(wrong) or "all there")
    if wrong:
        return 1
    if not shutil.which("zsh"):
        print("there is no zsh")
        return 77
    return 0


sys.exit(main(*sys.argv[1:]))
