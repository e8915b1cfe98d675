#!/usr/bin/env python3
"""Writes the figures of a run into docs/performance.md, between its markers.

usage: report.py RUN.json DOCUMENT.md [PEERS.json]

RUN.json is what `run.sh --json` prints. PEERS.json holds an object for each other library, in a list
or one after the other:

    {"peer": "Redisson", "version": "3.50.0", "rows": {"uncontended_p50_us": 120.5, ...}}

or, where it could not be run, {"peer": "...", "skipped": "why"}. Without it, the table of the other
libraries stays as it is. A run with `--cluster` makes the tables of the cluster, and no others.
"""
import json
import pathlib
import re
import sys

THREADS = re.compile(r"own_locks_(\d+)")
CELL = re.compile(r"contention_(?:cluster_)?(\d+)_(\d+)_([\d.]+)")
SPIN = re.compile(r"spin_.*")
CELLS = [
    (SPIN, "to spin or not"),
    (re.compile(r"contention_cluster_\d.*"), "one lock in a cluster"),
    (CELL, "one lock"),
]
OF_CLUSTER = re.compile(r"(contention_)?cluster_.*|subscriptions_.*")

# Lines of a cell, and their headings.
CELL_COLUMNS = [
    ("least", "least share"),
    ("longest", "longest gap, rounds of acquisitions"),
    ("longest_turns", "longest gap, rounds of turns"),
    ("longest_wait", "longest wait, rounds of turns"),
    ("scripts", "EVALSHA per acquisition"),
    ("publishes", "PUBLISH per acquisition"),
    ("rate", "acquisitions/s"),
]
CLUSTER_COLUMNS = [
    ("scripts", "EVALSHA per acquisition"),
    ("least", "least share"),
    ("longest_wait", "longest wait, rounds of turns"),
    ("wait_p999", "wait of a call, p99.9, us"),
    ("rate", "acquisitions/s"),
]

# Figures of the peers: key, heading, and the place of this library's figure in a run.
PEER_ROWS = [
    ("uncontended_p50_us", "uncontended lock+unlock, p50, us", ("uncontended", "relock_p50")),
    ("own_locks_16_pairs_per_s", "16 threads, own locks, pairs/s", ("own_locks_16", "relock")),
    ("one_lock_8_acquisitions_per_s", "8 threads, one lock, acquisitions/s", ("one_lock", "relock")),
    ("passing_p50_us", "released -> acquired elsewhere, p50, us", ("passing", "relock_p50")),
    ("commands_per_s_32_waiters", "commands/s of 32 waiters", None),
]
NOTHING = "–"

# From this size on, so many decimal places.
PLACES = [(100, 1), (1, 2), (0.1, 3), (0, 4)]


def number(value):
    if not isinstance(value, (int, float)):
        return NOTHING if value is None else str(value)
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    places = next(places for least, places in PLACES if abs(value) >= least)
    return f"{value:.{places}f}".rstrip("0").rstrip(".")


def span(figures):
    """The median, and the range of the rounds."""
    if figures["min"] == figures["max"]:
        return number(figures["median"])
    return f"{number(figures['median'])} ({number(figures['min'])} – {number(figures['max'])})"


def table(head, rows):
    """The first column is text, the others are numbers."""
    yield "| " + " | ".join(head) + " |"
    yield "|---|" + "--:|" * (len(head) - 1)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def line_of(result, name):
    return next(line for line in result["lines"] if line["id"] == name)


# ---- sections ---------------------------------------------------------------------------------


def machine(run, peers):
    about = run["machine"]
    yield f"Measured {about['date']} on {about['cpu']}, {about['cores']} cores, "
    yield f"load {about['load']:.2f} before; {about['kernel']}; {about['server']}, "
    yield f"hiredis {about['hiredis']}; {about['compiler']}, {about['build']}."


def judged(result):
    for check in result["checks"]:
        most, least = check.get("at_most"), check.get("at_least")
        if most is None and least is None:
            continue
        line = line_of(result, check["line"])
        what = check.get("what") or f"{line['what']}, {line['unit']}"
        reach = f"≤ {number(most)}" if most is not None else f"≥ {number(least)}"
        yield [
            f"{result['title']}: {what}",
            span(check),
            reach,
            "reached" if check["reached"] else "**missed**",
        ]


def titled(result):
    """What the targets call the cells of its row; None: the row has no cells."""
    return next((title for pattern, title in CELLS if pattern.fullmatch(result["id"])), None)


def judged_together(results, title):
    """Each check of these, as it is in the one where it comes out worst."""
    found = {}
    for check in (check for result in results for check in result["checks"] if "reached" in check):
        key = (check["line"], check.get("what"))
        ours, most = found.get(key), "at_most" in check
        if not ours or (check["median"] > ours["median"] if most else check["median"] < ours["median"]):
            found[key] = check
    title = f"{title}, the worst of {len(results)} cells"
    return {"title": title, "lines": results[0]["lines"], "checks": list(found.values())}


def targets(run, peers):
    """A row that has many cells gets one line for each of its checks."""
    rows, of_cells = [], set()
    for result in run["results"]:
        title = titled(result)
        if not title:
            rows += judged(result)
        elif title not in of_cells:
            cells_of = [one for one in run["results"] if titled(one) == title]
            of_cells.add(title)
            rows += judged(judged_together(cells_of, title))
    return table(["what", "measured", "target", ""], rows)


def threads(results):
    rows = []
    for match, result in results:
        lines = [line_of(result, name) for name in ["relock", "bare", "relock_p50", "bare_p50"]]
        rows.append([match[1]] + [number(line["median"]) for line in lines])
        rows[-1].insert(3, number(result["checks"][0]["median"]))
    return table(
        [
            "threads, a lock each",
            "relock, pairs/s",
            "bare, pairs/s",
            "ratio",
            "relock p50, us",
            "bare p50, us",
        ],
        rows,
    )


def beside(median, name):
    """In brackets: one server beside a cluster, and the other relock-bench, if there was one."""
    sides = [median[side + name] for side in ["one_", "other_"] if side + name in median]
    return f" ({'; '.join(sides)})" if sides else ""


def cells(results, columns):
    rows = []
    for match, result in results:
        median = {line["id"]: number(line["median"]) for line in result["lines"]}
        rows.append([f"{match[1]} x {match[2]}", match[3]])
        rows[-1] += [median[name] + beside(median, name) for name, _ in columns]
    heads = ["processes x threads on one lock", "hold, ms"] + [head for _, head in columns]
    return table(heads, rows)


def figures(result):
    """Without those that are compared with a target: `targets` has them."""
    if not result["lines"]:
        yield [f"**{result['title']}**", f"not measured: {result['note']}"]
        return
    aimed = {check["line"] for check in result["checks"] if "reached" in check and "against" not in check}
    rest = [
        [f"{line['what']}, {line['unit']}".rstrip(", "), span(line)]
        for line in result["lines"]
        if line["id"] not in aimed
    ]
    rest += [
        [check["what"], span(check)]
        for check in result["checks"]
        if "against" in check and "reached" not in check
    ]
    note = f" {result['note'][0].upper()}{result['note'][1:]}." if result["note"] else ""
    if rest or note:
        yield [f"**{result['title']}**{note}", ""]
    yield from rest


def matching(pattern, results):
    """Those that were measured."""
    measured = [result for result in results if result["lines"]]
    return [(match, result) for result in measured if (match := pattern.fullmatch(result["id"]))]


def others(results, tabled):
    rest = [result for result in results if not any(result is shown for _, shown in tabled)]
    yield ""
    yield from table(["what", "median (min – max)"], [row for result in rest for row in figures(result)])


def rows(run, peers):
    results = run["results"]
    own, contended = matching(THREADS, results), matching(CELL, results)
    spinning = matching(SPIN, results)
    yield from threads(own)
    if contended:
        yield ""
        yield from cells(contended, CELL_COLUMNS)
    yield from others(results, own + contended + spinning)


def cluster(run, peers):
    results = [result for result in run["results"] if OF_CLUSTER.fullmatch(result["id"])]
    contended = matching(CELL, results)
    yield from machine(run, peers)
    yield ""
    yield from targets({"results": results}, peers)
    yield ""
    yield from cells(contended, CLUSTER_COLUMNS)
    yield from others(results, contended)


def own_figures(run):
    """This library beside its peers, unless the run with the peers measured it."""
    found = {result["id"]: result for result in run["results"]}
    figures = {}
    for key, _, place in PEER_ROWS:
        if place and place[0] in found:
            figures[key] = line_of(found[place[0]], place[1])["median"]
    return {"peer": "relock", "version": "", "rows": figures}


def peer_row(peer):
    name = f"{peer['peer']} {peer.get('version', '')}".strip()
    if "skipped" in peer:
        return [f"{name}: not run, {peer['skipped']}"] + [NOTHING] * len(PEER_ROWS)
    return [name] + [number(peer["rows"].get(key)) for key, _, _ in PEER_ROWS]


def beside_peers(run, peers):
    if not any(peer["peer"] == "relock" for peer in peers):
        peers = [own_figures(run)] + peers
    yield from table(["library"] + [head for _, head, _ in PEER_ROWS], map(peer_row, peers))


SECTIONS = {"machine": machine, "targets": targets, "rows": rows, "peers": beside_peers}


def sections(run):
    if any(result["id"].startswith("contention_cluster_") for result in run["results"]):
        return {"cluster": cluster}
    return SECTIONS


# ---- the document -----------------------------------------------------------------------------


def replace(text, name, lines):
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
    before, found, rest = text.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        sys.exit(f"there are no markers for {name}")
    return before + begin + "".join(line.rstrip() + "\n" for line in lines) + end + after


def read_peers(text):
    """Lists of objects, or objects, one after the other."""
    decoder, peers = json.JSONDecoder(), []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        peers += value if isinstance(value, list) else [value]
        text = text[end:]
    return peers


def main(run_path, document_path, peers_path=None):
    document = pathlib.Path(document_path)
    run = json.loads(pathlib.Path(run_path).read_text())
    peers = read_peers(pathlib.Path(peers_path).read_text()) if peers_path else []
    text = document.read_text()
    for name, section in sections(run).items():
        if peers or name != "peers":
            text = replace(text, name, section(run, peers))
    document.write_text(text)


main(*sys.argv[1:])
