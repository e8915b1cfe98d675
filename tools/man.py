#!/usr/bin/env python3
"""Makes the manual pages from include/relock.h: one for each function, struct and callback.

    man.py HEADER EXAMPLES VERSION --list      prints the names of the files, without the folder
    man.py HEADER EXAMPLES VERSION FOLDER      writes them

A function of the C file EXAMPLES is the example of the pages that the comment above it names.

Functions that share a comment share a page, and so do an opaque struct and its constructor. The
other names are links to it. relock.7 is the comment at the top of the header.
"""
import os
import pathlib
import re
import sys
import time

from man_results import Results, blocks_of
from man_text import code, definitions, literal, name, paragraphs, prose

SECTION = re.compile(r"^/\* -{4,} (.+?) -{4,} \*/\n", re.M)
DOC = re.compile(r"^/\*\*(.*?)\*/\n", re.M | re.S)
FUNCTION = re.compile(r"^RELOCK_API .*?\b(relock_\w+)\(.*?;", re.M | re.S)
STRUCT = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.M | re.S)
FIELD = re.compile(r"\s*(?:/\*(.*?)\*/\s*)?([^;/]+;)(?:[ \t]*/\*(.*?)\*/)?", re.S)
CONSTANTS = re.compile(r"^(?:/\*(?:(?!\*/).)*\*/\n)?(?:#define RELOCK_[A-Z_]+ [^\\\n_]\S*.*\n)+",
                       re.M | re.S)
STATUS = re.compile(r'^    XX\((\w+), (-?\d+),[\s\\]*"(.*?)"\)', re.M)
COMMON_ERROR = re.compile(r"^    (RELOCK_E_\w+) +(.*)$", re.M)
EXAMPLE = re.compile(r"^/\* (relock_\w+(?:,\s+(?:\* )?relock_\w+)*) \*/\nstatic .*?^\{\n(.*?)^\}\n",
                     re.M | re.S)
TOPIC = re.compile(r"([A-Z][\w ]+)\.\s")


def plain(comment):
    """The lines of a comment without its frame."""
    return [re.sub(r"^ \* ?", "", line).rstrip() for line in comment.strip("\n").split("\n")]


class Page:
    def __init__(self, doc, code, constants, section):
        self.lines = plain(doc)
        self.constants = constants
        self.section = section
        self.types = []  # opaque structs that this page makes
        self.fields = ""
        self.intro = []
        self.read(code)

    def read(self, code):
        functions = list(FUNCTION.finditer(code))
        struct = STRUCT.match(code)
        macro = re.match(r"#define (RELOCK_\w+\(.*?\))", code)
        if functions:
            self.names = [found[1] for found in functions]
            self.code = [re.sub("^RELOCK_API |^ {11}", "", found[0], flags=re.M)
                         for found in functions]
        elif struct:
            self.names, self.fields = [struct[1]], struct[2]
            self.code = [without_comments(struct[0])]
        elif macro:
            self.names, self.code = [macro[1].partition("(")[0]], [macro[1] + ";"]
        else:
            self.code = [re.match(r"(?:struct|typedef) .*?;", code, re.S)[0]]
            self.names = re.findall(r"\b(relock_\w+)", self.code[0])[:1]

    def is_opaque(self):
        return re.fullmatch(r"struct \w+;", self.code[0])

    def split(self):
        """What it does, what it says about threads, and what it returns."""
        text = "\n".join(self.lines)
        before, _, after = text.partition("\nReturns:")
        before, _, threads = before.partition("\nThreads:")
        return before.strip("\n").split("\n"), threads.strip(), after.strip("\n")


def without_comments(code):
    code = re.sub(r"[ \t]*/\*.*?\*/", "", code, flags=re.S)
    return re.sub(r"  +(?=\w+;)", " ", re.sub(r"\n\s*\n", "\n", code))


def read(header):
    """The comment at the top, the results, and the pages."""
    top = plain(re.search(r"^/\*\n(.*?)\*/", header, re.M | re.S)[1])
    parts = SECTION.split(header)[1:]
    pages = []
    for title, text in zip(parts[::2], parts[1::2]):
        docs = DOC.split(text)
        intro = re.fullmatch(r"\n/\*\n(.*?)\*/\n\n", docs[0], re.S)
        for before, doc, code in zip(docs[::2], docs[1::2], docs[2::2]):
            page = Page(doc, code, CONSTANTS.findall(before), title)
            page.intro = ["", *plain(intro[1])] if intro and not page.fields else []
            pages.append(page)
    opaque = {page.names[0]: page for page in pages if page.is_opaque()}
    pages = [page for page in pages if not page.is_opaque()]
    for page in pages:
        page.types = [opaque[made] for made in opaque if page.names[0] == made + "_new"]
    return top, STATUS.findall(header), pages


def head(title, section, version, names, what):
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))
    return [f'.TH {title} {section} {time.strftime("%Y-%m-%d", date)} "relock {version}"',
            ".nh", ".ad l", ".SH NAME", ", ".join(names) + r" \- " + what]


def first_sentence(lines):
    text = " ".join(lines).strip().partition(". ")[0].rstrip(".")
    if len(text) > 90:
        text = text.partition(": ")[0].partition("; ")[0]
    return prose(text[0].lower() + text[1:] if text[1:2] in " " or text[1].islower() else text)


def fields(body):
    lines = [".SH FIELDS"]
    for above, declared, beside in FIELD.findall(body):
        lines += [".TP", name(" ".join(declared.split()).rstrip(";"))]
        text = [" ".join(plain(" * " + re.sub(r"\n\s+", "\n ", part).strip()))
                for part in (above, beside) if part]
        lines += [prose(part) for part in text] or [r"\&"]
    return lines


def write_page(page, version, others, results, examples):
    about, threads, result = page.split()
    lines = head(page.names[0], 3, version, page.names, first_sentence(about))
    lines += [".SH SYNOPSIS", ".nf", name("#include <relock.h>"), ""]
    for declared in page.constants + [one.code[0] for one in page.types] + page.code:
        lines += [name(line) for line in declared.rstrip("\n").split("\n")] + [""]
    lines[-1] = ".fi"
    lines += [".SH DESCRIPTION", *paragraphs(about + page.intro)]
    lines += fields(page.fields) if page.fields else []
    for one in page.types:
        lines += [f".SH STRUCT {one.names[0].upper()}", *paragraphs(one.lines)]
    lines += [".SH THREADS", *paragraphs(threads.split("\n"))] if threads else []
    lines += [".SH RETURN VALUE", *definitions(blocks_of(result))] if result else []
    for heading, found in results.complete(page.names[0]):
        lines += [f".SS {heading}", *definitions(found)]
    lines += [".SH EXAMPLES", *code(examples[page.names[0]])] if page.names[0] in examples else []
    near = [other.names[0] for other in others if other.section == page.section and other != page]
    return lines + see_also(near)


def see_also(names):
    refs = [f".BR {other} (3)," for other in sorted(names)]
    return [".SH SEE ALSO", *refs, ".BR relock (7)"]


def write_overview(top, statuses, pages, version):
    what = top[0].partition(" - ")[2]
    lines = head("relock", 7, version, ["relock"], what)
    lines += [".SH SYNOPSIS", name("#include <relock.h>"), ".PP",
              "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs relock) \\-pthread"]
    lines += [".SH DESCRIPTION", *paragraphs(top[2:], TOPIC)]
    lines += [".SH RESULTS"]
    for status, value, text in statuses:
        lines += [".TP", f"{name('RELOCK_' + status)} ({literal(value)})", prose(text)]
    for section in dict.fromkeys(page.section for page in pages):
        lines += [f".SH {section.upper()}"]
        for page in pages:
            if page.section == section:
                lines += [".TP", ", ".join(name(one) + "(3)" for one in page.names),
                          first_sentence(page.split()[0])]
    return lines


def examples_of(source):
    return {one: body for names, body in EXAMPLE.findall(source) for one in re.findall(r"\w+", names)}


def files(header, source, version):
    top, statuses, pages = read(header)
    results = Results({name: page.split()[2] for page in pages for name in page.names},
                      {"RELOCK_" + status: text for status, _, text in statuses},
                      dict(COMMON_ERROR.findall("\n".join(top))))
    examples = examples_of(source)
    made = {"relock.7": write_overview(top, statuses, pages, version),
            "relock.3": [".so man7/relock.7"]}
    for page in pages:
        made[page.names[0] + ".3"] = write_page(page, version, pages, results, examples)
    for page in pages:
        for link in page.names[1:] + [one.names[0] for one in page.types]:
            made.setdefault(link + ".3", [f".so man3/{page.names[0]}.3"])
    return made


def main(header, source, version, folder):
    # Packagers set this date. Without it, that of the header.
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(int(os.stat(header).st_mtime)))
    made = files(pathlib.Path(header).read_text(), pathlib.Path(source).read_text(), version)
    if folder == "--list":
        print("\n".join(sorted(made)))
        return
    for file, lines in made.items():
        (pathlib.Path(folder) / file).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
