/* The key: the value that each library writes, and how it reads a value that was written by
 * hand. */
#include "duo.h"

#include <stdio.h>
#include <string.h>

#define TOKEN_DIGITS 40
#define BY_HAND "0123456789abcdef0123456789abcdef01234567"

static bool is_hex(const char *text)
{
    return strlen(text) == TOKEN_DIGITS && strspn(text, "0123456789abcdef") == TOKEN_DIGITS;
}

/* Written by commands, to all servers. */
static void set_by_hand(struct duo *d)
{
    for (size_t i = 0; i < d->s->n; i++)
        assert_int_equal(probe_int(d->s->probe[i], "SET orders " BY_HAND " NX PX %d", LONG_MS), 0);
}

static void delete_by_hand(struct duo *d)
{
    assert_int_equal(duo_n_with_value(d, "orders", BY_HAND), d->s->n);
    for (size_t i = 0; i < d->s->n; i++)
        assert_int_equal(probe_int(d->s->probe[i], "DEL orders"), 1);
}

static void a_hold_made_by_hand_excludes_the_other_library(void **state)
{
    struct duo *d = *state;

    set_by_hand(d);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    delete_by_hand(d);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "yes");
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_hold_made_by_hand_excludes_us(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    set_by_hand(d);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    delete_by_hand(d);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void theirs_is_a_string_of_their_token_with_a_lease(void **state)
{
    struct duo *d = *state;

    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_true(duo_n_with_value(d, "orders", duo_do(d, "ann", "token orders")) >= duo_quorum(d));
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static size_t n_with_hex(struct duo *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->s->n; i++)
        n += is_hex(probe_text(d->s->probe[i], "GET orders"));
    return n;
}

static void ours_is_a_string_of_40_digits_with_a_lease(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(n_with_hex(d) >= duo_quorum(d));
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The value on one server; not every server need have it. */
static void read_token(struct duo *d, char token[TOKEN_DIGITS + 1])
{
    token[0] = '\0';
    for (size_t i = 0; i < d->s->n && token[0] == '\0'; i++)
        snprintf(token, TOKEN_DIGITS + 1, "%s", probe_text(d->s->probe[i], "GET orders"));
    assert_true(is_hex(token));
}

static void ours_is_another_token_each_time(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    char first[TOKEN_DIGITS + 1];

    assert_result(relock_lock(lock), RELOCK_OK);
    read_token(d, first);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(duo_wait_none(d, "orders")); /* a quorum has released it */
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(duo_n_with_value(d, "orders", first), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUO_TEST(a_hold_made_by_hand_excludes_the_other_library),
        DUO_TEST(a_hold_made_by_hand_excludes_us),
        DUO_TEST(theirs_is_a_string_of_their_token_with_a_lease),
        DUO_TEST(ours_is_a_string_of_40_digits_with_a_lease),
        DUO_TEST(ours_is_another_token_each_time),
    };

    duo_choose(argc, argv);
    return DUO_TESTS_RUN(tests);
}
