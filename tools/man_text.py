"""Turns the text of comments into roff, for man.py."""
import re
import textwrap


def literal(text):
    """Code: a hyphen is a minus there, and no quote is typographic."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return re.sub(r"^(?=\.)", r"\\&", text, flags=re.M)


def name(text):
    return f"\\fB{literal(text)}\\fR" if text else ""


def prose(text):
    """A paragraph, one sentence to a line."""
    def mark(found):
        return name(found[1]) + "()" if found[1] else name(found[2])

    parts = re.split(r"(`[^`]+`)", " ".join(text.split()))
    for i, part in enumerate(parts):
        if part.startswith("`"):
            parts[i] = name(part.strip("`"))
        else:
            part = part.replace("\\", "\\e").replace("'", "\\(cq").replace("->", "\\->")
            part = re.sub(r"(?<![\w-])-(?=\d)", r"\\-", part)
            part = re.sub(r"\S{30,}", lambda url: re.sub(r"([],/?])(?=\w|\[)", r"\1\\:", url[0]), part)
            parts[i] = re.sub(r"\b(relock_\w+)\(\)|\b(RELOCK_\w+)", mark, part)
    text = re.sub(r"(?<=[.:?]) (?=[A-Z*])", "\n", "".join(parts))
    return re.sub(r"^(?=[.'])", r"\\&", text, flags=re.M)


def paragraphs(lines, topic=None):
    """Paragraphs, lists with "- ", and indented code. What `topic` matches becomes a heading."""
    out = []
    for block in re.split(r"\n{2,}", "\n".join(lines).strip("\n")):
        heading = topic.match(block) if topic else None
        if not block:
            continue
        if block.startswith("    "):
            out += [".PP", *code(block)]
        elif block.startswith("- "):
            for item in re.split(r"^- ", block, flags=re.M)[1:]:
                out += [".IP \\(bu 2", prose(item)]
        elif heading:
            out += [f".SS {heading[1]}", prose(block[heading.end():])]
        else:
            out += [".PP", prose(block)]
    return out[1:] if out[:1] == [".PP"] else out


def definitions(blocks):
    """A list of names, each with what it means, and of sentences, which have no name."""
    out = []
    for item, meaning in blocks:
        out += [".TP", name(item), prose(meaning)] if item else [".PP", prose(meaning)]
    return out[1:] if out[:1] == [".PP"] else out


def code(text):
    lines = [literal(line) for line in textwrap.dedent(text).strip("\n").split("\n")]
    return [".RS 4", ".nf", *lines, ".fi", ".RE"]
