#!/usr/bin/env python3
"""Draws what passes between processes: TEXT, a file.txt, becomes file.svg beside it.

    picture.py TEXT --write     writes the picture
    picture.py TEXT --check     ends with 1 if the picture is not that of the text

A line of the text is one of these; time runs from the top down:

    title  TEXT          lane  X  NAME        X -> Y  TEXT       a message
    X holds              X waits              X ends, X dies     a bar begins, or the last one ends
    note  TEXT           time passes, and this is what happens
"""
import html
import pathlib
import re
import sys

LEFT, GAP, TOP, STEP = 95, 195, 68, 30
BAR = 5  # half the width
STYLE = """
    text { font: 13px sans-serif; fill: #24292f; }
    .title { font-size: 15px; font-weight: bold; }
    .label { text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
    .lane { text-anchor: middle; font-weight: bold; }
    .life { stroke: #b8c0c8; stroke-dasharray: 3 3; }
    .arrow { stroke: #57606a; fill: none; marker-end: url(#head); }
    .holds { fill: #2da44e; }
    .waits { fill: #fff; stroke: #57606a; stroke-dasharray: 2 2; }
    .dies { stroke: #cf222e; stroke-width: 3; }
    .note { fill: #cf222e; text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
"""


class Picture:
    def __init__(self):
        self.title = ""
        self.lanes = {}  # name: x and caption
        self.bars = {}  # lane: kind and beginning of its bar
        self.behind, self.before = [], []
        self.y = TOP

    def read(self, line):
        for pattern, method in [
            (r"title\s+(.+)", self.set_title),
            (r"lane\s+(\w+)\s+(.+)", self.add_lane),
            (r"note\s+(.+)", self.add_note),
            (r"(\w+) -> (\w+)\s+(.+)", self.add_message),
            (r"(\w+) (holds|waits|ends|dies)", self.change_bar),
        ]:
            found = re.fullmatch(pattern, line)
            if found:
                return method(*found.groups())
        sys.exit(f"not understood: {line}")

    def set_title(self, text):
        self.title = text

    def add_lane(self, name, caption):
        self.lanes[name] = (LEFT + GAP * len(self.lanes), caption)

    def x(self, lane):
        if lane not in self.lanes:
            sys.exit(f"there is no lane {lane}")
        return self.lanes[lane][0]

    def add_message(self, sender, receiver, text):
        self.y += STEP
        start, end = self.x(sender), self.x(receiver)
        way = 1 if end > start else -1
        self.before.append(f'<path class="arrow" d="M{start + way * (BAR + 1)} {self.y}'
                           f'H{end - way * (BAR + 2)}"/>')
        # The label is beside the lane that is not Redis: between two others it would be on a line.
        outer = start if abs(start - self.x("R")) > abs(end - self.x("R")) else end
        middle = outer + (GAP / 2 if self.x("R") > outer else -GAP / 2)
        self.add_text("label", middle, self.y - 5, text)

    def add_text(self, kind, x, y, text):
        self.before.append(f'<text class="{kind}" x="{x:g}" y="{y}">{html.escape(text)}</text>')

    def add_note(self, text):
        self.y += STEP + 6
        self.add_text("note", sum(x for x, _ in self.lanes.values()) / len(self.lanes), self.y, text)

    def change_bar(self, lane, change):
        if change == "dies":
            self.y += STEP
        self.end_bar(lane)
        if change == "dies":
            x = self.x(lane)
            self.before.append(f'<path class="dies" d="M{x - 7} {self.y - 7}l14 14m0 -14l-14 14"/>')
        elif change != "ends":
            self.bars[lane] = (change, self.y)

    def end_bar(self, lane, later=0):
        kind, start = self.bars.pop(lane, (None, 0))
        if kind:
            self.behind.append(f'<rect class="{kind}" x="{self.x(lane) - BAR}" y="{start}" '
                               f'width="{2 * BAR}" height="{self.y + later - start}"/>')

    def draw(self):
        for lane in list(self.bars):
            self.end_bar(lane, STEP)
        width, height = 2 * LEFT + GAP * (len(self.lanes) - 1), self.y + STEP + 50
        lives = [f'<path class="life" d="M{x} {TOP}V{self.y + STEP}"/>'
                 f'<text class="lane" x="{x}" y="{TOP - 8}">{html.escape(caption)}</text>'
                 for x, caption in self.lanes.values()]
        legend = self.y + STEP + 30
        return "\n".join([
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}">',
            f"<title>{html.escape(self.title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" '
            'orient="auto"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker></defs>',
            f'<rect width="{width}" height="{height}" rx="6" fill="#fff"/>',
            f'<text class="title" x="20" y="28">{html.escape(self.title)}</text>',
            *lives, *self.behind, *self.before,
            f'<rect class="holds" x="20" y="{legend - 10}" width="10" height="12"/>',
            f'<text x="38" y="{legend}">holds the lock</text>',
            f'<rect class="waits" x="160" y="{legend - 10}" width="10" height="12"/>',
            f'<text x="178" y="{legend}">waits in line</text>',
            "</svg>\n",
        ])


def main(text, option):
    picture = Picture()
    for line in pathlib.Path(text).read_text().splitlines():
        if line and not line.startswith("#"):
            picture.read(line.rstrip())
    file = pathlib.Path(text).with_suffix(".svg")
    if option == "--write":
        file.write_text(picture.draw())
    elif not file.exists() or file.read_text() != picture.draw():
        print(f"{file.name} is not the picture of {pathlib.Path(text).name}: run tools/picture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
