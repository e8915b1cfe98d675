#!/usr/bin/env python3
"""Makes the site of the documentation: README.md, and every file that it leads to.

    site.py MKDOCS FOLDER      builds it with this command of MkDocs in FOLDER/site

A page keeps its path. A file that is no page, such as an example or the header, becomes a page with
its text, and a folder becomes a list of its files. MkDocs fails for a link or an anchor that leads
nowhere.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
LINK = re.compile(r"(!?\[[^]]*\]\()(?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
FENCE = re.compile(r" *```")
ITEM = re.compile(r" *([-*+]|\d+\.) +(?=\S)")
LANGUAGES = {".h": "c", ".c": "c", ".cpp": "cpp", ".lua": "lua"}


def page_of(path):
    """The path of the page for a file or folder of the repository."""
    if path.suffix in (".md", ".svg"):
        return path
    return path / "index.md" if (TOP / path).is_dir() else path.with_name(path.name + ".md")


def title_of(text, path):
    found = re.search(r"^# (.+)", text, re.M)
    return found[1] if found else str(path)


def text_of(path):
    """A file of the repository as Markdown."""
    file = TOP / path
    if file.is_dir():
        names = sorted(entry.name for entry in file.iterdir()
                       if entry.suffix in LANGUAGES and entry.is_file())
        return f"# {path}/\n\n" + "".join(f"- [{name}]({path.name}/{name})\n" for name in names)
    text = file.read_text()
    if path.suffix == ".md":
        return text
    return f"# {path}\n\n```{LANGUAGES.get(path.suffix, '')}\n{text}```\n"


def widened(text):
    r"""Markdown in which the text of a list item is indented by 4 columns.

    Elsewhere it is indented as far as the item's first line. With less than 4, MkDocs takes it for
    a paragraph after the list. MkDocs also wants a blank line between a paragraph and an item.

    >>> print(widened("- a\n\n  b\n- c\n  1. d\n     e\n\n         code\n\nf\n\n    code"))
    - a
    <BLANKLINE>
        b
    <BLANKLINE>
    - c
        1. d
            e
    <BLANKLINE>
                code
    <BLANKLINE>
    f
    <BLANKLINE>
        code
    >>> print(widened("```\n- one\n\n  more\n```"))
    ```
    - one
    <BLANKLINE>
      more
    ```
    """
    columns, lines = [], []
    is_code = is_paragraph = is_after_blank = False
    for line in text.split("\n"):
        column = len(line) - len(line.lstrip())
        item = ITEM.match(line)
        is_fence = FENCE.match(line)
        if not is_code and line and (item or is_fence or is_after_blank):
            columns = [start for start in columns if start <= column]
        # A line that continues a paragraph belongs to its item wherever it begins.
        base = max((start for start in columns if start <= column), default=0)
        depth = sum(start <= column for start in columns)
        if is_after_blank or item:
            if item and is_paragraph:
                lines.append("")
            is_paragraph = depth > 0 and line != "" and not item
        lines.append(" " * (4 * depth) + line[base:] if line else line)
        if item and not is_code and column < base + 4:
            columns.append(item.end())
        is_code ^= bool(is_fence)
        is_after_blank = not line
    return "\n".join(lines)


def target_of(path, link):
    """The file of the repository that a link on a page leads to."""
    resolved = (TOP / path.parent / link).resolve()
    return resolved.relative_to(TOP) if resolved.is_relative_to(TOP) and resolved.exists() else None


def stage(folder):
    """Writes the pages, and returns their paths and titles: in the order of the README's list of
    pages, then in the order in which they are met."""
    readme = pathlib.Path("README.md")
    listed = text_of(readme).partition("\n## Documentation\n")[2]
    todo, titles = [readme, *(target_of(readme, found[2]) for found in LINK.finditer(listed))], {}
    for path in todo:
        text = text_of(path) if path.suffix != ".svg" else None
        page = page_of(path)
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            shutil.copy(TOP / path, folder / page)
            continue

        def relink(found):
            target = target_of(path, found[2])
            if target is None:
                return found[0]
            if target not in todo:
                todo.append(target)
            up = "../" * (len(page.parts) - 1)
            return f"{found[1]}{up}{page_of(target)}{found[3] or ''})"

        titles[page] = title_of(text, path)
        is_markdown = path.suffix == ".md" or (TOP / path).is_dir()
        (folder / page).write_text(widened(LINK.sub(relink, text)) if is_markdown else text)
    return titles


def navigation(titles):
    """The pages of users, of those who change the library, and the files that they link to."""
    def entries(test):
        return [{title: str(page)} for page, title in titles.items() if test(page)]

    def is_for_users(page):
        return page.parts[0] == "docs" or str(page) in ("README.md", "NEWS.md")

    def is_source(page):
        return page.suffixes[:-1] != [] or page.name in ("index.md", "LICENSE.md")

    return entries(lambda page: is_for_users(page) and not is_source(page)) + [
        {"For contributors": entries(lambda page: not is_for_users(page) and not is_source(page))},
        {"Sources": entries(is_source)},
    ]


def main(mkdocs, folder):
    folder = pathlib.Path(folder).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    pages.mkdir(parents=True)
    titles = stage(pages)
    shutil.copy(TOP / "tools/site/site.css", pages)
    config = folder / "mkdocs.yml"
    config.write_text((TOP / "tools/site/mkdocs.yml").read_text() + "".join(
        f"{key}: {json.dumps(value)}\n" for key, value in
        [("docs_dir", str(pages)), ("site_dir", str(folder / "site")), ("nav", navigation(titles))]
    ))
    # Not --quiet: with it, --strict counts no warnings.
    return subprocess.run([mkdocs, "build", "--strict", "-f", config]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
