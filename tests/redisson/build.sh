#!/usr/bin/env bash
# Builds the Java half of the tests: the newest Redisson that pom.xml names, and the oldest ones that
# we promise to get on with.
#
#     ./tests/redisson/build.sh FOLDER
#
# Each version goes into a folder of its own below FOLDER, and what is there already is not built
# again. Maven keeps the packages, so that they are fetched once. Ends with 77 when there is no Java
# or no Maven, or when the packages cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
versions='newest 3.27.2 3.17.7'

main()
{
    local out version tool

    [[ $# -eq 1 ]] || {
        echo "usage: $0 FOLDER" >&2
        exit 2
    }
    for tool in mvn java; do
        command -v "$tool" >/dev/null || {
            echo "there is no $tool"
            exit 77
        }
    done
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    for version in $versions; do
        is_built "$out/$version" || build "$version" "$out/$version"
    done
}

is_built()
{
    [[ -e $1/built && -z $(find "$here/java" "$0" -newer "$1/built" -type f) ]]
}

# A mistake in a source is a failure; only packages that are not there are excused.
build()
{
    local chosen=()

    [[ $1 == newest ]] || chosen=("-Dredisson.version=$1")
    echo "building with Redisson $1"
    rm -rf "$2"
    in_maven "$2" "${chosen[@]}" dependency:copy-dependencies -DincludeScope=runtime \
        -Dmaven.main.skip=true compile || {
        echo "Maven cannot get the packages"
        exit 77
    }
    in_maven "$2" "${chosen[@]}" compile
    archive "$2"
    touch "$2/built"
}

# The classes as the JVM has them in memory: with these, it takes half of the time to start. It writes them
# when it ends, which it does because there is no server. Only for classes in a jar, and from Java 13 on.
archive()
{
    (
        cd "$1"
        jar --create --file player.jar -C classes .
        java -Xmx128m -XX:+UseSerialGC -XX:ArchiveClassesAtExit=player.jsa \
            -cp "$1/player.jar:$1/dependency/*" Player redis://127.0.0.1:1 3000 </dev/null || true
    )
}

# First without the network; then with it, for a limited time.
in_maven()
{
    local out=$1

    shift
    mvn -q -o -B -f "$here/java/pom.xml" "-Dout=$out" "$@" ||
        timeout --foreground 300 mvn -q -B -f "$here/java/pom.xml" "-Dout=$out" "$@"
}

main "$@"
