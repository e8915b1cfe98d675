/*
 * Both libraries leave the same in the server: the key, its type, fields, counts and lease; channel
 * and message.
 */
#include "duet.h"
#include "shape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRACE_MAX 8192

/* The steps of both sides; each is followed by a comparison. */
struct side {
    struct duet *d;
    struct relock_client *client;
    struct relock_lock *lock; /* NULL: in Redisson */
    char trace[TRACE_MAX];
};

static void note(struct side *side, const char *what, const char *seen)
{
    size_t n = strlen(side->trace);

    snprintf(side->trace + n, sizeof(side->trace) - n, "%s:\n%s", what, seen);
}

static void note_all(struct side *side, const char *what)
{
    note(side, what, shape_of(duet_probe(side->d, "orders"), "*"));
}

/* With a lease of LONG_MS, but a lock with a fixed lease would not be kept. */
static void take(struct side *side)
{
    struct relock_how how = {.lease_ms = duet_keeps(side->d) ? 0 : LONG_MS};

    if (side->lock)
        assert_result(relock_acquire(side->lock, &how, NULL), RELOCK_OK);
    else
        assert_string_equal(duet_do(side->d, "ann", "lock orders 100000"), "ok");
}

static void leave(struct side *side)
{
    if (side->lock)
        assert_result(relock_unlock(side->lock), RELOCK_OK);
    else
        assert_string_equal(duet_do(side->d, "ann", "unlock orders"), "ok");
}

/* A lock that is kept is released later, with the same message. */
static void leave_for_good(struct side *side)
{
    leave(side);
    if (!side->lock || !duet_keeps(side->d))
        return;
    assert_int_equal(stats_of(side->client).kept, 1);
    assert_true(probe_wait_no_key(duet_probe(side->d, "orders"), "orders", SOON_MS));
}

static void force(struct side *side)
{
    if (side->lock)
        assert_result(relock_force_unlock(side->lock), RELOCK_OK);
    else
        assert_string_equal(duet_do(side->d, "ann", "force orders"), "yes");
}

static void take_and_leave(struct side *side)
{
    take(side);
    note_all(side, "held");
    leave_for_good(side);
    note_all(side, "free");
}

/* Except the remaining lease while two levels are held, and the counter of a fenced lock, which
 * differ on purpose. */
static void nest(struct side *side)
{
    char *seen;

    take(side);
    take(side);
    seen = strdup(shape_of(duet_probe(side->d, "orders"), "orders"));
    assert_non_null(strstr(seen, " lease"));
    *strstr(seen, " lease") = '\0';
    note(side, "held twice", seen);
    free(seen);
    note(side, "keys of levels", shape_of(duet_probe(side->d, "orders"), "{orders}:*"));
    leave(side);
    note(side, "held once", shape_of(duet_probe(side->d, "orders"), "orders"));
    note(side, "keys of levels", shape_of(duet_probe(side->d, "orders"), "{orders}:*"));
    leave_for_good(side);
    note(side, "free", shape_of(duet_probe(side->d, "orders"), "orders"));
}

/* Except the keys of a reader's levels, which Redisson leaves to their leases. */
static void take_and_force(struct side *side)
{
    take(side);
    force(side);
    note(side, "forced", shape_of(duet_probe(side->d, "orders"), "[^{]*"));
}

/* Runs the steps on one side and then on the other, each from an empty server. */
static void is_the_same_on_both_sides(struct duet *d, void (*steps)(struct side *side))
{
    struct relock_client *client = duet_client(d);
    struct side theirs = {.d = d};
    struct side ours = {.d = d, .client = client, .lock = duet_lock(d, client, "orders")};
    struct side *sides[] = {&theirs, &ours};
    struct probe *probe = duet_probe(d, "orders");

    for (int i = 0; i < 2; i++) {
        struct published *published = published_open(duet_socket(d), duet_is_sharded());
        char *heard;

        steps(sides[i]);
        heard = published_close(published, probe);
        note(sides[i], "heard", heard);
        free(heard);
        probe_int(probe, "FLUSHDB");
        (void)relock_unlock(ours.lock); /* after a forced release */
    }
    assert_string_equal(ours.trace, theirs.trace);
}

static void a_hold_is_the_same(void **state)
{
    is_the_same_on_both_sides(*state, take_and_leave);
}

static void levels_of_a_hold_are_the_same(void **state)
{
    is_the_same_on_both_sides(*state, nest);
}

static void a_lock_that_was_forced_open_is_the_same(void **state)
{
    is_the_same_on_both_sides(*state, take_and_force);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(a_hold_is_the_same),
        DUET_TEST(levels_of_a_hold_are_the_same),
        DUET_TEST(a_lock_that_was_forced_open_is_the_same),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
