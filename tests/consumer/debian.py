#!/usr/bin/env python3
"""Makes the archive of a release, builds the Debian packages from it, and passes them to lintian.

usage: debian.py

The unit tests of debian/rules are left out: they run here anyway.
"""
import os
import pathlib
import shutil
import sys
import tempfile

from steps import check, make_repository, run

PACKAGES = {
    "librelock0": "librelock.so.0",
    "librelock-dev": "relock.h",
    "librelock-doc": "guarantees.md",
    "relock": "bin/relock",
}


def release(scratch):
    """The archive of a release, unpacked; Debian's part is not in it but added to it."""
    repository, build = scratch / "relock", scratch / "build"
    make_repository(repository)
    run("meson", "setup", build, repository, "-Dtests=disabled", "-Dexamples=false")
    run("meson", "dist", "-C", build, "--no-tests")
    archive = next((build / "meson-dist").glob("relock-*.tar.xz"))
    version = archive.name.removeprefix("relock-").removesuffix(".tar.xz")
    shutil.copy(archive, scratch / f"relock_{version}.orig.tar.xz")
    run("tar", "-xf", archive, "-C", scratch)
    tree = scratch / f"relock-{version}"
    check(not (tree / "debian").exists(), "debian/ is in the archive of a release")
    shutil.copytree(repository / "debian", tree / "debian")
    return tree, version


def main():
    for tool in ["git", "dpkg-buildpackage", "dh", "lintian"]:
        if not shutil.which(tool):
            print("there is no", tool)
            sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="relock.") as name:
        scratch = pathlib.Path(name)
        tree, version = release(scratch)
        run("dpkg-buildpackage", "--no-sign", "--build=full", cwd=tree, env=os.environ | {
            "DEB_BUILD_OPTIONS": "nocheck parallel=2", "DEB_BUILD_PROFILES": "nocheck",
        })
        for package, file in PACKAGES.items():
            path = next(scratch.glob(f"{package}_{version}-*.deb"), None)
            check(path, "no package", package)
            check(file in run("dpkg", "--contents", path), package, "has no", file)
        changes = next(scratch.glob("*.changes"))
        print(run("lintian", "--allow-root", "--fail-on", "error,warning", "--info", changes))


main()
