#!/usr/bin/env python3
"""Builds the consumer with relock as its subproject: shared, static, and by a wrap file.

usage: run.py

What the build makes, installs and runs is compared with what a user was promised: the library and
nothing else.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
WRAP = "[wrap-file]\ndirectory = relock\n\n[provide]\ndependency_names = relock\n"


def run(*command):
    done = subprocess.run(
        [str(word) for word in command], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed ({done.returncode}): {' '.join(map(str, command))}")
    return done.stdout


def check(good, *message):
    if not good:
        sys.exit(" ".join(map(str, message)))


def make_project(folder):
    """The consumer, with a copy of relock below it."""
    shutil.copytree(HERE, folder)
    shutil.copytree(
        TOP, folder / "subprojects" / "relock", symlinks=True,
        ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"),
    )


def introspect(build, what):
    return json.loads(
        subprocess.run(
            ["meson", "introspect", f"--{what}", build], check=True, capture_output=True
        ).stdout
    )


def check_targets(build):
    """Of relock, the library is built: no test, example or tool."""
    of_relock = [
        target for target in introspect(build, "targets")
        if "/subprojects/relock/" in target["defined_in"]
    ]
    programs = [target["name"] for target in of_relock if target["type"] == "executable"]
    libraries = [target["name"] for target in of_relock if target["type"].endswith("library")]
    check("relock" in libraries, "no library among", of_relock)
    check(not programs, "relock builds programs in its user's build:", programs)
    check(not introspect(build, "tests"), "relock's tests are in its user's build")


def check_installed(build, destdir, shared):
    """The consumer brings itself and, if shared, the library that it needs to run."""
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", destdir)
    installed = {path.name for path in destdir.rglob("*") if not path.is_dir()}
    check("consumer" in installed, "the consumer is not among", installed)
    libraries = {name for name in installed if name.startswith("librelock.so")}
    check(bool(libraries) == shared, "installed of the library:", libraries)
    others = installed - libraries - {"consumer"}
    check(not others, "installed beside it:", others)


def try_out(project, name, *options):
    build, destdir = project / name, project / f"{name}-installed"
    # A relock that this system has must not stand in for the one under test.
    run("meson", "setup", build, project, "--wrap-mode=nodownload", "--force-fallback-for=relock",
        "--prefix=/usr", *options)
    run("meson", "compile", "-C", build)
    run(build / "consumer", f"unix://{project}/none.sock")
    check_targets(build)
    check_installed(build, destdir, shared="-Ddefault_library=shared" in options)
    print(f"ok: {name}")


def main():
    with tempfile.TemporaryDirectory(prefix="relock.") as scratch:
        project = pathlib.Path(scratch) / "consumer"
        make_project(project)
        try_out(project, "shared", "-Ddefault_library=shared")
        try_out(project, "static", "-Ddefault_library=static")
        (project / "subprojects" / "relock.wrap").write_text(WRAP)
        try_out(project, "wrap", "-Ddefault_library=shared", "-Dby_wrap=true")


main()
