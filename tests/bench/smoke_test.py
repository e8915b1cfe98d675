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
    "deferred": ["deferred_1", "deferred_4", "deferred_16"],
    "one_lock": ["one_lock"],
    "passing": ["passing"],
    "cached": ["cached_1", "cached_64"],
    "recall": ["recall"],
    "lost": ["lost"],
    "armed": ["armed"],
    "plain": ["plain"],
    "deadlock": [f"deadlock_{n}" for n in [2, 3, 4]] + ["deadlock_storm", "deadlock_price"],
    "commands": ["commands"],
    "waiting": ["waiting_1", "waiting_100", "waiting_1000"],
    "async": ["async"],
    "clients": ["clients"],
    "fairness": ["fairness"],
    "contention": [f"contention_{n}_2_0.2" for n in [2, 8, 10]] + ["contention_scale_2_0.2"],
    "holds": ["holds"],
    "renewals": ["renewals_1000", "renewals_100000"],
    "memory": ["memory_100000"],
    "handles": ["handles"],
    "names": ["names"],
    "red": ["red", "red_network"],
    "cluster": ["cluster", "cluster_slow"],
    "subscriptions": ["subscriptions_waits", "subscriptions_kept"],
    "ceiling": ["ceiling"],
}
# With --cluster, of the rows that it changes.
CLUSTER_RESULTS = (
    ["cluster_cached_1", "cluster_cached_64", "cluster_recall"]
    + [f"contention_cluster_{n}_2_0.2" for n in [2, 8, 10]]
    + ["contention_cluster_scale_2_0.2"]
)
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
    ("contention_cluster_2_2_0.2", "least"): 1,
    ("contention_cluster_2_2_0.2", "one_least"): 1,
    ("subscriptions_waits", "each"): 2.1,
}
# Of two times, which a slow machine measures badly, of two counts that depend on them, or of two sizes,
# between which the server may free the buffers of clients that have gone.
DIFFERENCES = {
    ("recall", "recalled_p50"),
    ("cluster_recall", "recalled_p50"),
    ("armed", "memory"),
    ("armed", "pair_memory"),
    ("subscriptions_waits", "memory"),
    ("subscriptions_kept", "memory"),
} | {("deadlock_price", wait_ms) for wait_ms in ["1", "10", "50", "200"]}
DOCUMENT = "".join(
    f"By hand.\n<!-- {name}: begin -->\nBy an earlier run.\n<!-- {name}: end -->\n"
    for name in ["machine", "targets", "rows", "peers", "cluster"]
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


def written_by(report, run, *peers):
    """What the report makes of the document."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        document = folder / "performance.md"
        document.write_text(DOCUMENT)
        (folder / "run.json").write_text(run)
        if peers:
            (folder / "peers.json").write_text(json.dumps(peers[0]))
            subprocess.run([report, folder / "run.json", document, folder / "peers.json"], check=True)
        subprocess.run([report, folder / "run.json", document], check=True)
        return document.read_text()


def wrong_report(text, n_stay, wanted):
    """It goes between the markers, and leaves the rest alone."""
    if text.count("earlier run") != n_stay or text.count("By hand.\n") != 5:
        yield f"report: not between the markers:\n{text}"
    for what in wanted:
        if what not in text:
            yield f"report: says nothing of {what}:\n{text}"


def run_bench(run, bench, *args):
    return subprocess.run(
        [run, "--quick", "--json", *args],
        env=os.environ | {"RELOCK_BENCH": bench},
        stdout=subprocess.PIPE,
        text=True,
    )


def wrong_results(run, expected):
    results = json.loads(run)["results"]
    yield from (line for result in results for line in wrong_lines(result))
    if [result["id"] for result in results] != expected:
        yield f"results: {[result['id'] for result in results]}"


def wrong_cluster(run, bench, report):
    args = ["--cluster", "--rows", "cached,recall,contention", "--against", bench]
    done = run_bench(run, bench, *args)
    if done.returncode != 0:
        yield f"in a cluster: ended with {done.returncode}"
        return
    yield from wrong_results(done.stdout, CLUSTER_RESULTS)
    wanted = ["| 10 x 2 | 0.2 |", "a lock that is kept", "cluster / one server"]
    yield from wrong_report(written_by(report, done.stdout), 4, wanted)


def wrong_left_out(run, bench):
    """A turn of two threads takes 10 ms, so none of these goes round a thousand times in 1.2 s."""
    args = ["--rows", "contention", "--processes", "2", "--holds", "0.2,20", "--min-rounds", "1000"]
    results = json.loads(run_bench(run, bench, *args).stdout)["results"]
    for result in results:
        if result["lines"] or not result["note"].startswith("left out"):
            yield f"{result['id']}: not left out: {result['note']}"
    if len(results) != 2:
        yield f"{len(results)} cells are left out"


def main(run, bench, report):
    listed = subprocess.run([bench, "--list"], stdout=subprocess.PIPE, text=True, check=True)
    with tempfile.TemporaryDirectory() as scratch:
        plot = pathlib.Path(scratch) / "threads.svg"
        done = run_bench(run, bench, "--plot", plot, "--against", bench)
        if done.returncode != 0:
            return done.returncode if done.returncode == SKIP else f"ended with {done.returncode}"
        xml.etree.ElementTree.parse(plot)

    wrong = list(wrong_results(done.stdout, sum(RESULTS.values(), [])))
    wanted = ["| Somebody 1.0 | 12.5", "200 held locks", "| 256 |", "| 10 x 2 | 0.2 |"]
    wrong += wrong_report(written_by(report, done.stdout, PEER), 1, wanted)
    wrong += wrong_cluster(run, bench, report)
    wrong += wrong_left_out(run, bench)
    rows = [line.split()[0] for line in listed.stdout.splitlines()]
    if rows != list(RESULTS):
        wrong.append(f"rows: {rows}")
    return "\n".join(wrong) or 0


sys.exit(main(*sys.argv[1:]))
