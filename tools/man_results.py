"""Completes the results of a function for man.py: a page says "as relock_lock" or "a common error"."""
import re
import textwrap

ITEM = re.compile(r"(RELOCK_\w+)\s{2,}(.*)")
STARTS = ("RELOCK_", "*", "the common errors", "the result for")  # a line of "Returns:" that continues none
AS = re.compile(r"\bas (relock_\w+)")
COMMON = re.compile(r"\bcommon errors?\b")


def blocks_of(text):
    """The parts of "Returns:": each a result, or None, and what is said."""
    blocks = []
    for line in textwrap.dedent(" " * 9 + text.lstrip()).split("\n"):
        item = ITEM.match(line)
        if item:
            blocks.append([item[1], item[2]])
        elif blocks and not line.startswith(STARTS) and (
                line.startswith(" ") or blocks[-1][0] is None):
            blocks[-1][1] += " " + line.strip()
        else:
            blocks.append([None, line])
    return blocks


class Results:
    """Every result of each function."""

    def __init__(self, texts, meanings, common):
        self.texts = texts  # of each function its "Returns:"
        self.meanings = meanings  # the text of each result, in the order of the header
        self.common = common  # what the comment at the top says about each common error

    def complete(self, function):
        """Headings, and below each every result with what it means. None if "Returns:" is complete."""
        own, _, of_callback = self.texts.get(function, "").partition("the result for `fn`: ")
        for heading, text in ("Every result", own), ("Every result for fn", of_callback):
            found = self.of(text)
            if len(found) > len(re.findall(r"RELOCK_\w+", text)):
                yield heading, [(result, "; or: ".join(said)) for result, said in found.items()]

    def of(self, text):
        blocks = blocks_of(text)
        sentences = " ".join(said for result, said in blocks if result is None)
        found = {}
        for function in AS.findall(sentences):
            found.update(self.of(self.texts[function]))
        if COMMON.search(sentences):
            found.update({result: [said] for result, said in self.common.items()})
        for result, said in blocks:
            if result is None:
                for named in re.findall(r"RELOCK_\w+", said):
                    found.setdefault(named, [self.meanings[named]])
            elif AS.fullmatch(said):
                found[result] = self.of(self.texts[AS.fullmatch(said)[1]])[result]
            elif said.startswith("also: "):
                found[result] = found.get(result, []) + [said.partition(": ")[2]]
            else:
                found[result] = [said]
        return {result: found[result] for result in self.meanings if result in found}
