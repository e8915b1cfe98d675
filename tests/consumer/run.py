#!/usr/bin/env python3
"""Builds the consumer with relock as its subproject: shared, static, without TLS, and by the
README's wrap file.

usage: run.py

The build may make, install and run only the things that a user was promised: the library and
nothing else.
"""
import json
import pathlib
import shutil
import subprocess
import tempfile

from steps import HERE, check, copy_tree, fenced, make_repository, run


def make_project(folder):
    """The consumer, with a copy of relock below it."""
    shutil.copytree(HERE, folder)
    copy_tree(folder / "subprojects" / "relock")


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


def write_wrap(project, scratch):
    """The README's wrap file, with this tree as its repository."""
    shutil.rmtree(project / "subprojects")
    make_repository(scratch / "relock.git")
    wrap = fenced("README.md", "ini", containing="[wrap-git]")
    check("url = URL\n" in wrap, "README.md: the wrap does not name URL")
    (project / "subprojects").mkdir()
    (project / "subprojects" / "relock.wrap").write_text(
        wrap.replace("URL", (scratch / "relock.git").as_uri())
    )


def check_openssl(build, has_tls):
    """The library needs OpenSSL for TLS alone. Without its package Meson leaves both out."""
    needed = run("readelf", "--dynamic", next(build.rglob("librelock.so")))
    has_openssl = any(
        part["name"] == "openssl" for part in introspect(build, "dependencies")
    )
    check(("libssl" in needed) == (has_tls and has_openssl), "the library needs", needed)


def try_out(project, name, *options):
    build, destdir = project / name, project / f"{name}-installed"
    # An installed relock must not replace the one under test.
    run("meson", "setup", build, project, "--force-fallback-for=relock", "--prefix=/usr", *options)
    run("meson", "compile", "-C", build)
    run(build / "consumer", f"unix://{project}/none.sock")
    check_targets(build)
    if "-Ddefault_library=shared" in options:
        check_openssl(build, has_tls="-Drelock:tls=disabled" not in options)
    check_installed(build, destdir, shared="-Ddefault_library=shared" in options)
    print(f"ok: {name}")


def main():
    with tempfile.TemporaryDirectory(prefix="relock.") as name:
        scratch = pathlib.Path(name)
        project = scratch / "consumer"
        make_project(project)
        try_out(project, "shared", "-Ddefault_library=shared")
        try_out(project, "static", "-Ddefault_library=static")
        try_out(project, "no-tls", "-Ddefault_library=shared", "-Drelock:tls=disabled")
        write_wrap(project, scratch)
        try_out(project, "wrap", "-Ddefault_library=shared", "-Dby_wrap=true")


main()
