"""Prints what the peers measured: a table, and JSON.

usage: report.py RESULTS [JSON-FILE]

RESULTS has a line of JSON for each peer and round. The figures are medians over the rounds.
"""
import json
import statistics
import sys

ROWS = {
    "uncontended_p50_us": "lock + unlock, 1 thread, p50 [us]",
    "own_locks_16_pairs_per_s": "16 threads, own locks [pairs/s]",
    "one_lock_8_acquisitions_per_s": "8 threads, one lock [acquisitions/s]",
    "one_lock_8_least_percent": "  share of the least of them [%; fair is 12.5]",
    "passing_p50_us": "released -> acquired in another process, p50 [us]",
    "commands_per_s_32_waiters": "commands at Redis, 32 waiters on a held lock [1/s]",
}


def medians(lines):
    """One object per peer, in the order of their first lines."""
    rounds = {}
    for line in lines:
        result = json.loads(line)
        rounds.setdefault((result["peer"], result["version"]), []).append(result["rows"])
    return [
        {
            "peer": peer,
            "version": version,
            "rows": {row: round(statistics.median(one[row] for one in rows), 1) for row in ROWS},
        }
        for (peer, version), rows in rounds.items()
    ]


def print_table(peers):
    print(f"{'':52}" + "".join(f"{peer['peer']:>14}" for peer in peers))
    for row, title in ROWS.items():
        print(f"{title:52}" + "".join(f"{peer['rows'][row]:14,.1f}" for peer in peers))
    for peer in peers:
        print(f"{peer['peer']} {peer['version']}")


def main():
    with open(sys.argv[1], encoding="utf-8") as results:
        peers = medians(results)
    print_table(peers)
    text = json.dumps(peers, indent=2)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "w", encoding="utf-8") as file:
            file.write(text + "\n")
    else:
        print(text)


main()
