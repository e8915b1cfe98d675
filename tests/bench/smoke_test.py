#!/usr/bin/env python3
"""Whether relock-bench runs and says something sane. No time is judged.

usage: smoke_test.py RUN.sh RELOCK-BENCH
"""
import json
import os
import subprocess
import sys

RESULTS = {
    "uncontended",
    "own_locks_4",
    "own_locks_16",
    "own_locks_64",
    "own_locks_256",
    "one_lock_alone",
    "one_lock_fair",
    "passing",
}
ROUNDS = 2
SKIP = 77


def wrong_lines(result):
    for line in result["lines"]:
        if len(line["rounds"]) != ROUNDS or not all(number > 0 for number in line["rounds"]):
            yield f"{result['id']}: {line['id']}: {line['rounds']}"
        if not line["min"] <= line["median"] <= line["max"]:
            yield f"{result['id']}: {line['id']}: out of order"


def main(run, bench):
    done = subprocess.run(
        [run, "--rounds", str(ROUNDS), "--seconds", "0.02", "--json"],
        env=os.environ | {"RELOCK_BENCH": bench},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        return done.returncode if done.returncode == SKIP else f"ended with {done.returncode}"

    results = json.loads(done.stdout)["results"]
    wrong = [line for result in results for line in wrong_lines(result)]
    seen = [result["id"] for result in results]
    if sorted(seen) != sorted(RESULTS):
        wrong.append(f"results: {seen}")
    return "\n".join(wrong) or 0


sys.exit(main(*sys.argv[1:]))
