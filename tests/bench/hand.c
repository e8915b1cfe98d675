#include "hand.h"

#include "rows.h"

/* ---- with the library ---------------------------------------------------------------------- */

static void open_ours(struct hand *hand, const char *url, const char *name, unsigned side)
{
    (void)side;
    hand->client = ours_client(url);
    hand->lock = ours_lock(hand->client, name);
}

static bool take_ours(struct hand *hand)
{
    uint64_t waits = ours_stats(hand->client).waits;

    ours_take(hand->lock);
    return ours_stats(hand->client).waits > waits;
}

static void give_ours(struct hand *hand)
{
    ours_give(hand->lock);
}

static uint64_t close_ours(struct hand *hand)
{
    uint64_t rechecks = ours_stats(hand->client).rechecks;

    relock_lock_free(hand->lock);
    relock_client_free(hand->client);
    return rechecks;
}

const struct hand_kind hand_ours = {open_ours, take_ours, give_ours, close_ours};

/* ---- with bare connections ----------------------------------------------------------------- */

static void open_bare(struct hand *hand, const char *url, const char *name, unsigned side)
{
    hand->redis = bare_connect(url);
    hand->subscriber = bare_connect(url);
    bare_lock_init(&hand->bare_lock, name, side + 1);
    bare_subscribe(hand->subscriber, &hand->bare_lock);
}

static bool take_bare(struct hand *hand)
{
    bool slept = false;

    /* The message of its own previous release reaches it too. The retry that it causes is not
     * measured: it falls into the holder's pause. */
    while (!bare_take(hand->redis, &hand->bare_lock)) {
        bare_await_message(hand->subscriber);
        slept = true;
    }
    return slept;
}

static void give_bare(struct hand *hand)
{
    bare_give(hand->redis, &hand->bare_lock);
}

static uint64_t close_bare(struct hand *hand)
{
    bare_close(hand->redis);
    bare_close(hand->subscriber);
    return 0;
}

const struct hand_kind hand_bare = {open_bare, take_bare, give_bare, close_bare};
