"""What the checks of this folder share: a copy of the tree, and commands that must succeed."""
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent


def run(*command, **options):
    """Returns what it printed."""
    done = subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed ({done.returncode}): {' '.join(map(str, command))}")
    return done.stdout


def check(good, *message):
    if not good:
        sys.exit(" ".join(map(str, message)))


def copy_tree(folder):
    shutil.copytree(
        TOP, folder, symlinks=True,
        ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"),
    )


def make_repository(folder):
    """The tree as it is now, committed: a clone of it is what a user gets."""
    copy_tree(folder)
    git = ["git", "-C", folder, "-c", "user.name=consumer", "-c", "user.email=consumer@localhost"]
    run("git", "init", "-q", folder)
    run(*git, "add", "-A")
    run(*git, "commit", "-q", "-m", "all")


def fenced(page, language, containing):
    """The text of the one block ```language of a page with this in it."""
    text = (TOP / page).read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)
    return the_only([block for block in blocks if containing in block], page, containing)


def commands(page, containing):
    """The same for a block of indented commands."""
    blocks = re.findall(r"(?:^    .*\n)+", (TOP / page).read_text(), re.M)
    found = the_only([block for block in blocks if containing in block], page, containing)
    return re.sub(r"^    ", "", found, flags=re.M)


def the_only(found, page, containing):
    check(len(found) == 1, f"{page}: {len(found)} blocks with {containing!r}, not one")
    return found[0]
