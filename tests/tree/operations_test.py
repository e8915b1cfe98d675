#!/usr/bin/env python3
"""The files for operators fit the library: alerts name metrics that it exports, and the unit is valid.

    operations_test.py SOURCE

promtool and systemd-analyze check them as well, where they are installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def faults_of(source):
    alerts = source / "examples/operations/relock-alerts.yml"
    unit = source / "examples/operations/shop.service"
    exported = set(re.findall(r'"([a-z_]+)"', (source / "lib/metrics.c").read_text()))
    named = re.findall(r"\brelock_(\w+)", re.sub(r"^ *#.*", "", alerts.read_text(), flags=re.M))
    for metric in named:
        if re.sub("_(bucket|sum|count)$", "", metric) not in exported:
            yield f"{alerts}: the library does not export relock_{metric}"
    if not named:
        yield f"{alerts} names no metric"
    if shutil.which("promtool"):
        yield from said_by("promtool", "check", "rules", alerts)
    if shutil.which("systemd-analyze"):
        with tempfile.TemporaryDirectory() as folder:
            # The program of the example is not there.
            copy = pathlib.Path(folder) / unit.name
            copy.write_text(unit.read_text().replace("/usr/local/bin/shop", "/bin/true"))
            yield from said_by("systemd-analyze", "verify", copy)


def said_by(*command):
    """What a program that checks a file has to say about it."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = [line for line in done.stdout.splitlines() if command[-1].name in line]
    if done.returncode or (lines and command[0] != "promtool"):
        yield "\n".join(lines) or done.stdout


wrong = list(faults_of(pathlib.Path(sys.argv[1])))
print("\n".join(wrong) or "ok")
sys.exit(bool(wrong))
