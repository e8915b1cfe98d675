/*
 * The checker on the tokens of a fenced lock.
 */
#include "story.h"

#include <relock.h>

static void take(int slot, unsigned hold, uint64_t from_ms, uint64_t to_ms, uint64_t token)
{
    story_sort = HISTORY_FENCED;
    story_take(slot, hold, from_ms, to_ms);
    story.at[story.n - 1].token = token;
}

/* Both asked at 0. One got it after the other, and both were certain of it. */
static void two_certain_holds(uint64_t token, uint64_t next_token)
{
    take(0, 1, 0, 10, token);
    story_claim(0, 1, 20, 900);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    take(1, 1, 0, 120, next_token);
    story_claim(1, 1, 130, 900);
    story_leave(1, 1, 200, 210, RELOCK_OK);
}

/* For neither is the time of the grant known, nor which came first. */
static void two_vague_holds(uint64_t token, uint64_t next_token)
{
    take(0, 1, 0, 10, token);
    story_leave(0, 1, 100, 110, RELOCK_LOST);
    take(1, 1, 0, 120, next_token);
    story_leave(1, 1, 200, 210, RELOCK_LOST);
}

static void tokens_that_grow_are_clean(void **state)
{
    (void)state;
    two_certain_holds(7, 9);
    story_is_clean();
}

static void a_token_that_is_smaller_is_found(void **state)
{
    (void)state;
    two_certain_holds(9, 7);
    story_shows(CHECK_TOKENS, 1);
}

static void a_token_that_came_before_is_found(void **state)
{
    (void)state;
    two_certain_holds(7, 7);
    story_shows(CHECK_TOKENS, 1);
}

static void holds_of_unknown_order_may_have_tokens_in_any_order(void **state)
{
    (void)state;
    two_vague_holds(9, 7);
    story_is_clean();
}

static void holds_of_unknown_order_must_have_different_tokens(void **state)
{
    (void)state;
    two_vague_holds(7, 7);
    story_shows(CHECK_TOKENS, 1);
}

static void an_acquire_begun_during_a_hold_comes_after_it(void **state)
{
    (void)state;
    two_vague_holds(9, 7);
    for (size_t i = 0; i < story.n; i++)
        if (story.at[i].slot == 1 && story.at[i].from_ns == 0)
            story.at[i].from_ns = (uint64_t)11 * STORY_NS_PER_MS;
    story_shows(CHECK_TOKENS, 1);
}

static void a_hold_is_compared_beyond_one_of_unknown_order(void **state)
{
    (void)state;
    take(0, 1, 0, 10, 9);
    story_claim(0, 1, 20, 900);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    take(1, 1, 0, 115, 5); /* reported late */
    story_leave(1, 1, 200, 210, RELOCK_LOST);
    take(2, 1, 0, 120, 8);
    story_claim(2, 1, 130, 900);
    story_leave(2, 1, 220, 230, RELOCK_OK);
    story_shows(CHECK_TOKENS, 1);
}

static void locks_have_tokens_of_their_own(void **state)
{
    (void)state;
    two_certain_holds(9, 7);
    for (size_t i = 0; i < story.n; i++)
        story.at[i].lock = story.at[i].slot;
    story_is_clean();
}

static void a_deeper_level_with_another_token_is_found(void **state)
{
    struct history_record *deeper;

    (void)state;
    two_certain_holds(7, 9);
    deeper = story_add(HISTORY_NEST, 0, 1, 30, 40);
    deeper->token = 7;
    story_is_clean();
    deeper->token = 8;
    story_shows(CHECK_TOKENS, 1);
    deeper->result = RELOCK_E_CONN;
    deeper->token = 0;
    story_is_clean();
}

static void a_fenced_hold_without_a_token_is_found(void **state)
{
    (void)state;
    take(0, 1, 0, 10, 0);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    story_shows(CHECK_CANNOT_BE, 1);
}

static void a_token_of_another_kind_is_found(void **state)
{
    (void)state;
    take(0, 1, 0, 10, 7);
    story_leave(0, 1, 100, 110, RELOCK_OK);
    for (size_t i = 0; i < story.n; i++)
        story.at[i].sort = HISTORY_FAIR;
    story_shows(CHECK_CANNOT_BE, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STORY_TEST(tokens_that_grow_are_clean),
        STORY_TEST(a_token_that_is_smaller_is_found),
        STORY_TEST(a_token_that_came_before_is_found),
        STORY_TEST(holds_of_unknown_order_may_have_tokens_in_any_order),
        STORY_TEST(holds_of_unknown_order_must_have_different_tokens),
        STORY_TEST(an_acquire_begun_during_a_hold_comes_after_it),
        STORY_TEST(a_hold_is_compared_beyond_one_of_unknown_order),
        STORY_TEST(locks_have_tokens_of_their_own),
        STORY_TEST(a_deeper_level_with_another_token_is_found),
        STORY_TEST(a_fenced_hold_without_a_token_is_found),
        STORY_TEST(a_token_of_another_kind_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
