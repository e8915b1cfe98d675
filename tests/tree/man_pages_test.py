#!/usr/bin/env python3
"""The manual pages have each function, struct, callback and constant of the header, and its text; each
result that a function returns; and an example of each function.

    man_pages_test.py MAN_PY HEADER EXAMPLES

The formatters that this system has, groff and mandoc, must have nothing to say about them.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DOC = re.compile(r"^/\*\*(.*?)\*/\n(?:.*\n)*?.*?\b(relock_\w+|RELOCK_SCOPE)(?= \{|[;(])", re.M | re.S)
NAME = re.compile(r"^(?:RELOCK_API|typedef|struct) .*?\b(relock_\w+)(?= \{|[;(])", re.M)
STRUCT = re.compile(r"^struct (relock_\w+) \{\n(.*?)^\};", re.M | re.S)
FUNCTION = re.compile(r"^RELOCK_API .*?\b(relock_\w+)\(", re.M)
CONSTANT = re.compile(r"^#define (RELOCK_[A-Z_]+[A-Z]) [^\\\n_]", re.M)
FORMATTERS = [["groff", "-man", "-Tutf8", "-ww", "-z"], ["mandoc", "-Tlint", "-Wwarning"]]


def words(text):
    text = re.sub(r"\\f[BR]|\\[&:]", "", text).replace("\\-", "-")
    text = re.sub(r"\\\([a-z]{2}|^Threads:|^Returns:", " ", text, flags=re.M)
    return re.findall(r"\w+", text)


def are_in_order(few, many):
    rest = iter(many)
    return all(word in rest for word in few)


def page_of(folder, name):
    """The text of the page, behind a link if there is one."""
    path = folder / f"{name}.3"
    if not path.exists():
        return ""
    text = path.read_text()
    return (folder / pathlib.Path(text.split()[1]).name).read_text() if text[:4] == ".so " else text


def faults_of(folder, header):
    names = set(NAME.findall(header))
    for name in sorted(names):
        text = page_of(folder, name)
        if name not in text.partition(".SH NAME\n")[2].partition(".SH DESC")[0]:
            yield f"{name} has no page"
    for name in FUNCTION.findall(header):
        page = page_of(folder, name)
        if not re.search(rf"^\.SH EXAMPLES\n.*\b{name}\(", page, re.M | re.S):
            yield f"the page of {name} has no example"
        if "common error" in page and "RELOCK_E_FORKED" not in page:
            yield f"the page of {name} does not name the common errors"
    every = "".join(path.read_text() for path in folder.iterdir())
    for constant in CONSTANT.findall(header):
        if constant not in every:
            yield f"no page has {constant}"
    n_docs = 0
    for comment, name in DOC.findall(header):
        n_docs += 1
        comment = re.sub(r"^ \* ?", "", comment, flags=re.M)
        # A struct has the name of a function: its comment is on the page of its constructor.
        pages = [page_of(folder, name), page_of(folder, name + "_new")]
        if not any(are_in_order(words(comment), words(page)) for page in pages):
            yield f"the page of {name} lacks a part of its comment"
    for name, body in STRUCT.findall(header):
        comments = " ".join(re.findall(r"/\*(.*?)\*/", body, re.S))
        if not are_in_order(words(comments), words(page_of(folder, name))):
            yield f"the page of {name} lacks what is said about a field"
    top = re.search(r"^/\*\n(.*?)\*/", header, re.M | re.S)[1].partition("\n *\n")[2]
    top = re.sub(r"^ \* ?", "", top, flags=re.M)
    if not are_in_order(words(top), words((folder / "relock.7").read_text())):
        yield "relock.7 lacks a part of the comment at the top"
    if not names or not n_docs:
        yield "this test finds nothing in the header"


def complaints_about(folder):
    pages = [path.name for path in sorted(folder.iterdir()) if path.read_text()[:4] != ".so "]
    for command in FORMATTERS:
        if shutil.which(command[0]):
            done = subprocess.run([*command, *pages], cwd=folder, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            yield from done.stdout.splitlines()


def main(man_py, header, examples):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([man_py, header, examples, "0.0.0", folder], check=True)
        wrong = [*faults_of(folder, pathlib.Path(header).read_text()), *complaints_about(folder)]
        print("\n".join(wrong) or f"{len(list(folder.iterdir()))} pages")
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
