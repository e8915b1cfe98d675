#include "support/late.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool is_late; /* the last wait ended by its deadline */
static bool has_failed;            /* main thread */

bool late_unless(bool in_time)
{
    is_late = !in_time;
    return in_time;
}

/* A wait that was expected to end by its deadline excuses nothing later. */
bool late_was(void)
{
    bool was_late = is_late;

    is_late = false;
    return was_late;
}

void late_is_leak(void)
{
    if (is_late)
        fprintf(stderr, "leak: something was left when it should have been gone\n");
    is_late = false;
}

void late_begin(void)
{
    is_late = false;
    has_failed = false;
}

bool late_has_failed(void)
{
    return has_failed;
}

void late_fail(const char *text, const char *file, int line)
{
    has_failed = true;
    fprintf(stderr, "late: %s at %s:%d\n", text, file, line);
    _fail(file, line);
    abort();
}

/* An assertion has failed, whose reason has been printed. */
static void fail_or_be_late(bool was_late, const char *text, const char *file, int line)
{
    if (was_late)
        late_fail(text, file, line);
    _fail(file, line);
}

void late_check(bool condition, const char *text, const char *file, int line)
{
    bool was_late = late_was();

    if (condition)
        return;
    if (!was_late)
        print_error("%s\n", text);
    fail_or_be_late(was_late, text, file, line);
}

void late_check_text(const char *a, const char *b, const char *text, const char *file, int line)
{
    bool was_late = late_was();

    if (strcmp(a, b) == 0)
        return;
    print_error("\"%s\" != \"%s\"\n", a, b);
    fail_or_be_late(was_late, text, file, line);
}

void late_check_int(intmax_t a, intmax_t b, const char *text, const char *file, int line)
{
    bool was_late = late_was();

    if (a == b)
        return;
    print_error("%jd != %jd\n", a, b);
    fail_or_be_late(was_late, text, file, line);
}

void late_check_time(uint64_t took_ms, uint64_t limit_ms, const char *text, const char *file,
                     int line)
{
    if (took_ms <= limit_ms)
        return;
    fprintf(stderr, "%llu ms, not %llu or less\n", (unsigned long long)took_ms,
            (unsigned long long)limit_ms);
    late_fail(text, file, line);
}
