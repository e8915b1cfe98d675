# One line per step, the reasons of failures, and the counts. tests/run.sh sources this file.
#
# shellcheck shell=bash disable=SC2034,SC2154 # shared with tests/run.sh

# ok, failed or skipped; name; log; beginning; file with one line per test
report()
{
    local passed=0 failed=0 skipped=0 took=$((SECONDS - ${4:-$SECONDS}))

    if [[ -s ${5:-} ]]; then
        passed=$(grep -cE '"result": "(OK|EXPECTEDFAIL)"' "$5" || true)
        skipped=$(grep -c '"result": "SKIP"' "$5" || true)
        failed=$(($(wc -l <"$5") - passed - skipped))
    fi
    case $1 in
    ok) [[ $passed -gt 0 || $skipped -gt 0 ]] || passed=1 ;;
    failed) [[ $failed -gt 0 ]] || failed=1 ;;
    skipped) skipped=1 ;;
    esac
    echo "$passed $failed $skipped" >>"$out/results"

    case $1 in
    ok) echo "ok       $2  $took s, $passed passed, $skipped skipped" ;;
    failed) printf 'FAILED   %s  %d s, %d passed, %d failed, log: %s\n%s\n' \
        "$2" "$took" "$passed" "$failed" "$3" "$(explain "$2" "$3" "${5:-}")" ;;
    skipped) echo "skipped  $2: $(tail -n 1 "$3")" ;;
    esac
}

# Why the step failed; a log may be cut, so this is short. Step, its log, Meson's lines.
explain()
{
    local names=$out/logs/$1.failures

    rm -f "$names"
    [[ ! -s $3 ]] || tests/failures.py "$3" "$names" || true
    if [[ -s $names ]]; then
        sed "s/^/FAILED   $1: /" "$names" >>"$out/failures"
    else
        # If a check continues after a fault, its last lines may be about successes.
        grep -E 'error|Error|ERROR|FAILED' "$2" | head -n 20 | sed 's/^/    /' || true
        tail -n 40 "$2" | sed 's/^/    /'
        echo "FAILED   $1" >>"$out/failures"
    fi
}

summary()
{
    cat "$out/failures"
    awk '{ passed += $1; failed += $2; skipped += $3 }
        END {
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0 || passed == 0
        }' "$out/results"
}
