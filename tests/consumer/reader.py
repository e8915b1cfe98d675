#!/usr/bin/env python3
"""Does what the README and CONTRIBUTING print, in a fresh clone, and runs the README's program.

usage: reader.py

The installation of the README goes to /usr/local, in a mount namespace of its own so that this
system stays as it is. Where there are no namespaces, that part says so and the script ends with 77.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from steps import check, commands, fenced, make_repository, run

# What is written to these folders is gone with the namespace.
OWN_SYSTEM = """
mount -t tmpfs none /mnt
for folder in /usr/local /etc /var/cache/ldconfig; do
    mkdir -p "/mnt/new$folder" "/mnt/work$folder"
    mount -t overlay overlay \\
        -o "lowerdir=$folder,upperdir=/mnt/new$folder,workdir=/mnt/work$folder" "$folder"
done
"""

# `sudo` only makes root of somebody who is it here already.
SUDO = """#!/bin/sh
exec "$@"
"""


def build_cheaply():
    """Without optimisation, and with one compiler cache for all, also with another HOME."""
    os.environ["CFLAGS"] = "-O0 -g0"
    if shutil.which("ccache"):
        os.environ["CCACHE_DIR"] = run("ccache", "--get-config", "cache_dir").strip()


def clone(scratch, name):
    """A fresh clone with the README's program in it, as server.c."""
    folder = scratch / name
    run("git", "clone", "-q", scratch / "relock.git", folder)
    (folder / "server.c").write_text(fenced("README.md", "c", containing="int main("))
    return folder


def follow(folder, script, *wrapper, **environment):
    """Runs the commands in the clone, and then the program: it has to begin."""
    run(*wrapper, "bash", "-euo", "pipefail", "-c", script + BEGINS, cwd=folder,
        env=os.environ | environment)


# No server listens there, and only the program says so in these words.
BEGINS = """
./a.out unix:///none.sock >out 2>&1 || true
grep 'orders:42: ' out || { cat out; exit 1; }
"""


def a_build_needs_no_cmocka(scratch):
    folder = clone(scratch, "no-cmocka")
    script = commands("CONTRIBUTING.md", containing="meson compile -C build")
    tools = without_cmocka(scratch)
    run("bash", "-euo", "pipefail", "-c", script, cwd=folder, env=os.environ | tools)
    tests = json.loads(run("meson", "introspect", "--tests", folder / "build"))
    check(not tests, "there are tests, so cmocka was found all the same")
    check((folder / "build/examples/quickstart").exists(), "no examples without cmocka")

    required = subprocess.run(
        ["meson", "setup", "required", "-Dtests=enabled"], cwd=folder, env=os.environ | tools,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )
    check(required.returncode != 0, "-Dtests=enabled does without cmocka")
    check("cmocka" in required.stdout, "-Dtests=enabled does not name cmocka")


def without_cmocka(scratch):
    """An environment in which Meson finds all packages of pkg-config except this one."""
    folder = scratch / "pkgconfig"
    folder.mkdir()
    path = run("pkg-config", "--variable=pc_path", "pkg-config").strip()
    for file in [file for part in path.split(":") for file in pathlib.Path(part).glob("*.pc")]:
        if file.stem != "cmocka" and not (folder / file.name).exists():
            (folder / file.name).symlink_to(file)
    return {"PKG_CONFIG_LIBDIR": str(folder), "CMAKE": "/none/cmake"}


def a_program_compiles_against_the_tree(scratch):
    folder = scratch / "no-cmocka"
    follow(folder, commands("CONTRIBUTING.md", containing="meson-uninstalled"))


def a_folder_of_ones_own_is_installed_to(scratch):
    folder = clone(scratch, "own-folder")
    home = scratch / "home"
    home.mkdir()
    follow(folder, commands("README.md", containing="--prefix="), HOME=str(home))


def the_installed_tool_starts_also_after_a_move(scratch):
    """Without a path to the library in the environment."""
    bare = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    prefix, moved = scratch / "home/.local", scratch / "moved"
    run(prefix / "bin/relock", "--version", env=bare)
    prefix.rename(moved)
    run(moved / "bin/relock", "--version", env=bare)
    moved.rename(prefix)
    # Distributions forbid a RUNPATH.
    build = scratch / "own-folder/build-own"
    run("meson", "configure", build, "-Drunpath=false")
    run("meson", "install", "-C", build, "--destdir", scratch / "no-runpath")
    tool = scratch / "no-runpath" / prefix.relative_to("/") / "bin/relock"
    dynamic = run("readelf", "--dynamic", tool)
    check("librelock.so.0" in dynamic and "RUNPATH" not in dynamic and "RPATH" not in dynamic,
          "-Drunpath=false:", dynamic)


def packages_are_made_by_destdir(scratch):
    folder = scratch / "own-folder"
    run("meson", "install", "-C", "build-own", "--no-rebuild", "--destdir", scratch / "package",
        cwd=folder)
    prefix = scratch / "package" / (scratch / "home/.local").relative_to("/")
    for file in ["include/relock.h", "lib/librelock.so.0", "lib/pkgconfig/relock.pc"]:
        check((prefix / file).exists(), "not in the package:", file)


def root_installs_for_all(scratch):
    sudo = scratch / "sudo"
    sudo.mkdir()
    (sudo / "sudo").write_text(SUDO)
    (sudo / "sudo").chmod(0o755)
    wrapper = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--mount", "-r"]
    if subprocess.run([*wrapper, "bash", "-euc", OWN_SYSTEM]).returncode:
        return False
    folder = clone(scratch, "root")
    script = commands("README.md", containing="sudo meson install")
    follow(folder, OWN_SYSTEM + script, *wrapper, PATH=f"{sudo}:{os.environ['PATH']}")
    return True


def main():
    with tempfile.TemporaryDirectory(prefix="relock.") as name:
        scratch = pathlib.Path(name)
        build_cheaply()
        make_repository(scratch / "relock.git")
        for step in [
            a_build_needs_no_cmocka,
            a_program_compiles_against_the_tree,
            a_folder_of_ones_own_is_installed_to,
            packages_are_made_by_destdir,
            the_installed_tool_starts_also_after_a_move,
        ]:
            step(scratch)
            print("ok:", step.__name__.replace("_", " "))
        if not root_installs_for_all(scratch):
            print("there are no mount namespaces: not installed to /usr/local")
            sys.exit(77)
        print("ok: root installs for all")


main()
