"""Which failures are those of a time limit alone, and why tests failed, short enough for a log.

A test is a line of Meson's log, from JSON. tests/run/suites.py and again.py use this module;
tests/tree/failures_test.py tests it.

A failure is late if nothing else is wrong: Meson's time limit ended the program, or each assertion
that failed did so right after a wait whose deadline had passed. Such an assertion prints a line that
begins with "late: " (tests/support/late.h). A failure is wrong if the program ended by itself, and
nothing but assertions of its cases failed. A crash, a report of a sanitizer or of valgrind, a leak
and what a checker finds are neither.
"""
import re

PASSED = ["OK", "EXPECTEDFAIL"]
LINES = 60  # for all failed tests of a step together
COMPLAINT = r"error: |ERROR: |ThreadSanitizer: |runtime error|^==\d+== \S|Assertion"
LATE = r"^late: (.*) at (\S+:\d+)$"  # tests/support/late.c
FAILURE = r"\[   LINE   \] --- (\S+:\d+): error: Failure!"  # each assertion of cmocka
NEVER_LATE = (
    r"(Address|Leak|Memory|Thread|UndefinedBehavior)Sanitizer|runtime error:|^==\d+== "
    r"|Assertion .* failed|Test failed with exception|^FAILED|^leak: |child: |stack smashing"
)


def output(test):
    return test.get("stdout", "") + "\n" + test.get("stderr", "")


def late_cause(test):
    """Which time limit made the test fail; "" if anything else did, or might have."""
    text = output(test)
    late = re.findall(LATE, text, re.M)
    failures = re.findall(FAILURE, text)
    if test["result"] not in ["FAIL", "TIMEOUT"] or re.search(NEVER_LATE, text, re.M):
        return ""
    if sorted(place for _, place in late) != sorted(failures):
        return ""
    if test["result"] == "TIMEOUT":
        return f"it was ended after {test['duration']:.0f} s: {complaint(test)}"
    # The exit status of cmocka is the number of cases that failed.
    if not late or test.get("returncode") != len(late):
        return ""
    return "not in time: " + "; ".join(f"{what} at {place}" for what, place in late)


def wrong_cause(test):
    """Which assertions failed, if that is all that happened, else ""."""
    text = output(test)
    failed = re.findall(FAILURE, text)
    if test["result"] != "FAIL" or re.search(NEVER_LATE, text, re.M):
        return ""
    # The exit status of cmocka is the number of cases that failed.
    if not failed or test.get("returncode") != len(failed):
        return ""
    return "wrong at " + ", ".join(failed)


def verdict(test):
    """Of a test that has ended: passed, skipped, late, wrong or failed."""
    if test["result"] in PASSED:
        return "passed"
    if test["result"] == "SKIP":
        return "skipped"
    if late_cause(test):
        return "late"
    return "wrong" if wrong_cause(test) else "failed"


def skip_reason(test):
    lines = [line.strip() for line in output(test).splitlines() if line.strip()]
    return re.sub(r":? skipped$", "", lines[-1]) if lines else "it does not say why"


def bare_name(test):
    """As `meson test` takes it: "relock:unit+tree / includes point down" without the suites."""
    return test["name"].partition(" / ")[2] or test["name"]


def complaint(test):
    """The most telling line; for a test that hung, its position."""
    lines = test.get("stderr", "").splitlines()
    found = [line for line in lines if re.search(COMPLAINT, line)]
    began = re.findall(r"^\[ RUN      \].*", test.get("stdout", ""), re.M)
    if test["result"] == "TIMEOUT":
        return (began or lines or [""])[-1].strip()
    return (found or lines[-1:] or began[-1:] or [""])[0].strip()


def summary(test):
    return f"{test['name']}  {test['result']}  {complaint(test)}"


def last(text, count):
    return "".join(f"        {line}\n" for line in text.splitlines()[-count:])


def explain(failed):
    """The last lines of the output of each."""
    text = ""
    for test in failed:
        count = max(LINES // len(failed), 12)
        text += f"    {test['name']}  {test['result']} after {test['duration']:.1f} s\n"
        text += last(test.get("stdout", ""), count // 3)
        text += last(test.get("stderr", ""), count - count // 3)
    return text
