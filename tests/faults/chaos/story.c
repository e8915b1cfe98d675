#include "story.h"

#include <relock.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct history_records story;
enum history_sort story_sort;

struct history_record *story_add(enum history_kind kind, int slot, unsigned hold, uint64_t from_ms,
                                 uint64_t to_ms)
{
    struct history_record record = {.kind = kind,
                                    .sort = story_sort,
                                    .slot = slot,
                                    .life = 1,
                                    .hold = hold,
                                    .from_ns = from_ms * STORY_NS_PER_MS,
                                    .to_ns = to_ms * STORY_NS_PER_MS};

    history_add(&story, &record);
    return &story.at[story.n - 1];
}

void story_take(int slot, unsigned hold, uint64_t from_ms, uint64_t to_ms)
{
    story_add(HISTORY_ASK, slot, hold, from_ms, from_ms)->value = RELOCK_FOREVER;
    story_add(HISTORY_TAKE, slot, hold, from_ms, to_ms);
}

void story_claim(int slot, unsigned hold, uint64_t at_ms, int64_t valid_ms)
{
    story_add(HISTORY_CLAIM, slot, hold, at_ms, at_ms)->value = valid_ms;
}

void story_leave(int slot, unsigned hold, uint64_t from_ms, uint64_t to_ms, int result)
{
    story_add(HISTORY_LEAVE, slot, hold, from_ms, from_ms);
    story_add(HISTORY_LEFT, slot, hold, from_ms, to_ms)->result = result;
}

int story_begin(void **state)
{
    (void)state;
    story = (struct history_records){0};
    story_sort = HISTORY_REENTRANT;
    return 0;
}

int story_end(void **state)
{
    (void)state;
    history_free(&story);
    return 0;
}

static struct check_report checked(char **text)
{
    const struct check_limits limits = {
        .recheck_ms = STORY_RECHECK_MS,
        .stopped_ms = STORY_STOPPED_MS,
        .spin_pause_ms = STORY_SPIN_PAUSE_MS,
        .patience_ms = STORY_PATIENCE_MS,
        .round_trip_ms = STORY_ROUND_TRIP_MS,
        .recovery_ms = STORY_RECOVERY_MS,
    };
    struct check_report report;
    size_t size;
    FILE *out = open_memstream(text, &size);

    assert_non_null(out);
    check(&story, &limits, out, &report);
    fclose(out);
    return report;
}

struct check_report story_report(void)
{
    char *text;
    struct check_report report = checked(&text);

    free(text);
    return report;
}

void story_is_clean(void)
{
    char *text;
    struct check_report report = checked(&text);

    if (check_n_violations(&report) > 0)
        print_error("%s", text);
    free(text);
    assert_int_equal(check_n_violations(&report), 0);
}

/* Exactly this violation. */
void story_shows(enum check_violation violation, size_t n)
{
    char *text;
    struct check_report report = checked(&text);
    bool is_told = strstr(text, "VIOLATION: ") && strstr(text, " process ");

    if (check_n_violations(&report) != n)
        print_error("%s", text);
    free(text);
    assert_int_equal(report.n_violations[violation], n);
    assert_int_equal(check_n_violations(&report), n);
    assert_true(is_told);
}
