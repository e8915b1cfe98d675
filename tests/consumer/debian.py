#!/usr/bin/env python3
"""Builds the Debian packages from a copy of the tree, and looks at them with lintian.

usage: debian.py

The unit tests of debian/rules are left out: they run here anyway.
"""
import os
import pathlib
import shutil
import sys
import tarfile
import tempfile

from steps import TOP, check, copy_tree, run

PACKAGES = {
    "librelock0": "librelock.so.0",
    "librelock-dev": "relock.h",
    "librelock-doc": "guarantees.md",
    "relock": "bin/relock",
}


def upstream(entry):
    """What belongs to the archive of a release, which Debian's part is added to."""
    return None if pathlib.Path(entry.name).parts[1:2] == ("debian",) else entry


def main():
    for tool in ["dpkg-buildpackage", "dh", "lintian"]:
        if not shutil.which(tool):
            print("there is no", tool)
            sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="relock.") as name:
        scratch = pathlib.Path(name)
        version = run("meson", "introspect", "--projectinfo", TOP / "meson.build")
        version = version.partition('"version": "')[2].partition('"')[0]
        tree = scratch / f"relock-{version}"
        copy_tree(tree)
        with tarfile.open(scratch / f"relock_{version}.orig.tar.gz", "w:gz") as archive:
            archive.add(tree, tree.name, filter=upstream)
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
