# One line per step, the reasons of failures, and the counts. tests/run.sh sources this file. Steps
# of tests are reported by suites.py.
#
# shellcheck shell=bash disable=SC2034,SC2154 # shared with tests/run.sh

# ok, failed or skipped; name; log; beginning
report()
{
    local took=$((SECONDS - ${4:-$SECONDS}))

    case $1 in
    ok)
        echo '1 0 0' >>"$out/results"
        echo "ok       $2  $took s"
        ;;
    failed)
        echo '0 1 0' >>"$out/results"
        echo "FAILED   $2" >>"$out/failures"
        printf 'FAILED   %s  %d s, log: %s\n%s\n' "$2" "$took" "$3" "$(explain "$3")"
        ;;
    skipped)
        echo '0 0 1' >>"$out/results"
        printf '%s\t%s\t\n' "$2" "$(tail -n 1 "$3")" >>"$out/skipped"
        echo "skipped  $2"
        ;;
    esac
}

# The status of what has run; name; log; beginning
report_result()
{
    case $1 in
    0) report ok "${@:2}" ;;
    77) report skipped "${@:2}" ;;
    *) report failed "${@:2}" ;;
    esac
}

# Parts of a step that the script in this log has left out.
report_parts()
{
    sed -n "s/^skipped /$1\t/p" "$2" >>"$out/skipped"
}

# Why the step failed; a log may be cut, so this is short.
explain()
{
    # If a check continues after a fault, its last lines may be about successes.
    grep -E 'error|Error|ERROR|FAILED' "$1" | head -n 20 | sed 's/^/    /' || true
    tail -n 40 "$1" | sed 's/^/    /'
}

# The tests that one step skips for one reason are one line.
list_skipped()
{
    awk -F '\t' '
        { reason = $1 ": " $2 }
        !(reason in names) { order[++n] = reason }
        { names[reason] = names[reason] (names[reason] == "" ? "" : ", ") $3 }
        END {
            for (i = 1; i <= n; i++)
                print "skipped  " order[i] (names[order[i]] == "" ? "" : " (" names[order[i]] ")")
        }' "$out/skipped"
}

summary()
{
    tests/run/again.py "$out"
    list_skipped
    cat "$out/unsteady" "$out/failures"
    [[ ! -s $out/unsteady ]] || echo "$(wc -l <"$out/unsteady") unsteady"
    awk '{ passed += $1; failed += $2; skipped += $3 }
        END {
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0 || passed == 0
        }' "$out/results"
}
