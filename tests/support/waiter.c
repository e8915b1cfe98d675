#include "support/waiter.h"

void waiter_open_inbox(struct fixture *f, struct relock_client *client)
{
    struct relock_lock *before = fixture_lock(f, client, "before");
    struct actor *waiting = actor_start();

    waiter_begin(f, waiting, before);
    waiter_gets_in(f, waiting, before);
}

void waiter_begin(struct fixture *f, struct actor *waiter, struct relock_lock *lock)
{
    const char *name = relock_lock_name(lock);
    char channel[128];

    peer_channel(name, channel, sizeof(channel));
    assert_true(peer_lock(f->probe, name, PEER, PEER_LEASE_MS));
    actor_begin_lock(waiter, lock);
    assert_true(probe_wait_subscribers(f->probe, channel, 1));
}

void waiter_gets_in(struct fixture *f, struct actor *waiter, struct relock_lock *lock)
{
    assert_true(peer_unlock(f->probe, relock_lock_name(lock), PEER));
    assert_gets_in(waiter, lock);
}
