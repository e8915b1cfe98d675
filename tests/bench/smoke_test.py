#!/usr/bin/env python3
"""Checks that relock-bench runs and its report is plausible. No time is judged.

usage: smoke_test.py RUN.sh RELOCK-BENCH REPORT.py
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

RESULTS = {
    "uncontended": ["uncontended"],
    "tls": ["tls"],
    "spin": [
        f"spin_{way}_{load}"
        for way in ["unix", "tcp", "far", "tls"]
        for load in ["1_0", "2_0", "4_0", "16_0", "1_1", "1_2", "1_4", "1_16"]
    ],
    "own_locks": [f"own_locks_{2**n}" for n in range(9)],
    "one_lock": ["one_lock"],
    "passing": ["passing"],
    "cached": ["cached_1", "cached_64"],
    "recall": ["recall"],
    "lost": ["lost"],
    "armed": ["armed"],
    "plain": ["plain"],
    "deadlock": [f"deadlock_{n}" for n in [2, 3, 4]],
    "commands": ["commands"],
    "waiting": ["waiting_1", "waiting_100", "waiting_1000"],
    "async": ["async"],
    "clients": ["clients"],
    "fairness": ["fairness"],
    "contention": [f"contention_{n}_2_0.2" for n in [2, 8, 10]] + ["contention_scale_2_0.2"],
    "holds": ["holds"],
    "renewals": ["renewals_1000", "renewals_100000"],
    "handles": ["handles"],
    "names": ["names"],
    "red": ["red", "red_network"],
    "cluster": ["cluster", "cluster_slow"],
    "ceiling": ["ceiling"],
}
# Beside the counts that end relock-bench when they are wrong: what no slow machine can change. If a
# hold lasts for longer than 100 ms, client tracking sends some commands.
HOLD = {
    ("commands", "pair"): 2.1,
    ("commands", "bare_pair"): 2,
    ("commands", "level"): 2.1,
    ("async", "threads"): 0,
    ("clients", "each"): 1,
    ("fairness", "overtaken"): 0,
    ("names", "subscribes"): 1,
    ("plain", "commands"): 0,
    ("contention_2_2_0.2", "least"): 1,
    ("contention_2_2_0.2", "other_least"): 1,
}
# Of two times, which a slow machine measures badly, or of two sizes, between which the server may free
# the buffers of clients that have gone.
DIFFERENCES = {("recall", "recalled_p50"), ("armed", "memory"), ("armed", "pair_memory")}
DOCUMENT = "".join(
    f"By hand.\n<!-- {name}: begin -->\nBy an earlier run.\n<!-- {name}: end -->\n"
    for name in ["machine", "targets", "rows", "peers"]
)
PEER = {"peer": "Somebody", "version": "1.0", "rows": {"uncontended_p50_us": 12.5}}
SKIP = 77


def wrong_lines(result):
    for line in result["lines"]:
        where = f"{result['id']}: {line['id']}"
        least = -math.inf if (result["id"], line["id"]) in DIFFERENCES else 0
        if not line["rounds"] or min(line["rounds"]) < least:
            yield f"{where}: {line['rounds']}"
        if not line["min"] <= line["median"] <= line["max"]:
            yield f"{where}: out of order"
        most = HOLD.get((result["id"], line["id"]))
        if most is not None and line["max"] > most:
            yield f"{where}: {line['max']} is more than {most}"
    if not result["lines"] and not result["note"]:
        yield f"{result['id']}: not measured, and not said why"


def wrong_report(report, run):
    """The report goes between the markers and leaves the rest alone."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        document, peers = folder / "performance.md", folder / "peers.json"
        document.write_text(DOCUMENT)
        peers.write_text(json.dumps(PEER))
        (folder / "run.json").write_text(run)
        subprocess.run([report, folder / "run.json", document, peers], check=True)
        text = document.read_text()
        subprocess.run([report, folder / "run.json", document], check=True)
        if document.read_text() != text:
            yield "report: without figures of the peers, their table does not stay"
    if "earlier run" in text or text.count("By hand.\n") != 4:
        yield f"report: not between the markers:\n{text}"
    for wanted in ["| Somebody 1.0 | 12.5", "200 held locks", "| 256 |", "| 10 x 2 | 0.2 |"]:
        if wanted not in text:
            yield f"report: says nothing of {wanted}:\n{text}"


def run_bench(run, bench, plot):
    return subprocess.run(
        [run, "--quick", "--json", "--plot", plot, "--against", bench],
        env=os.environ | {"RELOCK_BENCH": bench},
        stdout=subprocess.PIPE,
        text=True,
    )


def main(run, bench, report):
    listed = subprocess.run([bench, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    with tempfile.TemporaryDirectory() as scratch:
        plot = pathlib.Path(scratch) / "threads.svg"
        done = run_bench(run, bench, plot)
        if done.returncode != 0:
            return done.returncode if done.returncode == SKIP else f"ended with {done.returncode}"
        xml.etree.ElementTree.parse(plot)

    results = json.loads(done.stdout)["results"]
    wrong = [line for result in results for line in wrong_lines(result)]
    wrong += wrong_report(report, done.stdout)
    seen = [result["id"] for result in results]
    if seen != sum(RESULTS.values(), []):
        wrong.append(f"results: {seen}")
    rows = [line.split()[0] for line in listed.stdout.splitlines()]
    if rows != list(RESULTS):
        wrong.append(f"rows: {rows}")
    return "\n".join(wrong) or 0


sys.exit(main(*sys.argv[1:]))
