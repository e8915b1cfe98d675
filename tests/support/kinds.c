#include "support/kinds.h"

#include "support/peer.h"
#include "support/plain_peer.h"

#include <stdlib.h>
#include <string.h>

/* As a lock: of one permit. */
static int new_semaphore(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    int r = relock_semaphore_new(client, name, lock);

    if (r == RELOCK_OK)
        assert_result(relock_semaphore_init(*lock, 1, NULL), RELOCK_OK);
    return r;
}

const struct kind kinds[KINDS_ALL_N] = {
    [KIND_REENTRANT] = {"reentrant", relock_lock_new, false, 0},
    [KIND_FENCED] = {"fenced", relock_fencedlock_new, false, 0},
    [KIND_SPIN] = {"spin", relock_spinlock_new, false, 0},
    [KIND_FAIR] = {"fair", relock_fairlock_new, false, 0},
    [KIND_PLAIN] = {"plain", relock_plainlock_new, true, 0},
    [KIND_READ] = {"read", relock_rdlock_new, false, 0},
    [KIND_WRITE] = {"write", relock_wrlock_new, false, 0},
    [KIND_SEMAPHORE] = {"semaphore", new_semaphore, true, 1},
};

static const struct kind *now = &kinds[KIND_REENTRANT];

const struct kind *kind_now(void)
{
    return now;
}

void kind_choose(enum kind_no kind)
{
    now = &kinds[kind];
}

struct relock_lock *kind_lock(struct fixture *f, struct relock_client *client, const char *name)
{
    return fixture_lock_of(f, client, name, now->constructor);
}

/* ---- in Redis ------------------------------------------------------------------------------ */

const char *kind_holder(struct fixture *f, const char *name)
{
    return now->is_string ? probe_text(f->probe, "GET %s", name) : probe_only_field(f->probe, name);
}

/* Besides the hold there is the mode of the lock, and for each read level a key with its lease. */
static bool side_has_levels(struct fixture *f, const char *name, long long levels)
{
    const char *list = probe_list(f->probe, "HGETALL %s", name);
    const char *last = strrchr(list, ' ');
    bool has_levels = last && strtoll(last, NULL, 10) == levels;

    return has_levels && probe_int(f->probe, "HLEN %s", name) == 2 &&
           probe_n_keys(f->probe) == (now == &kinds[KIND_READ] ? levels + 1 : 1);
}

bool kind_has_levels(struct fixture *f, const char *name, long long levels)
{
    if (now->is_string)
        return strlen(kind_holder(f, name)) == 40;
    if (now >= &kinds[KINDS_N])
        return side_has_levels(f, name, levels);
    return probe_only_value(f->probe, name) == levels;
}

bool kind_is_peers(struct fixture *f, const char *name)
{
    if (now->is_string)
        return strcmp(kind_holder(f, name), PLAIN_PEER) == 0;
    return strcmp(kind_holder(f, name), PEER) == 0 && probe_only_value(f->probe, name) == 1;
}

/* ---- somebody else ------------------------------------------------------------------------- */

bool kind_peer_lock(struct fixture *f, const char *name)
{
    return now->is_string ? plain_peer_lock(f->probe, name, PLAIN_PEER, PEER_LEASE_MS)
                          : peer_lock(f->probe, name, PEER, PEER_LEASE_MS);
}

bool kind_peer_unlock(struct fixture *f, const char *name)
{
    return now->is_string ? plain_peer_unlock(f->probe, name, PLAIN_PEER)
                          : peer_unlock(f->probe, name, PEER);
}

bool kind_peer_usurp(struct fixture *f, const char *name)
{
    return now->is_string ? plain_peer_usurp(f->probe, name, PLAIN_PEER, PEER_LEASE_MS)
                          : peer_usurp(f->probe, name, PEER, PEER_LEASE_MS);
}

static const char *other_type(size_t nth)
{
    const char *const types[KIND_N_OTHER_TYPES] = {now->is_string ? "hash" : "string", "zset",
                                                   "list"};

    return types[nth];
}

/* By RENAME, so that there is no moment without a key. */
void kind_replace(struct fixture *f, const char *name, size_t nth)
{
    const char *type = other_type(nth);

    if (strcmp(type, "hash") == 0)
        assert_int_equal(probe_int(f->probe, "HSET data precious 1"), 1);
    else if (strcmp(type, "string") == 0)
        assert_int_equal(probe_int(f->probe, "SET data precious"), 0);
    else if (strcmp(type, "zset") == 0)
        assert_int_equal(probe_int(f->probe, "ZADD data 1 precious"), 1);
    else
        assert_int_equal(probe_int(f->probe, "RPUSH data precious"), 1);
    assert_int_equal(probe_int(f->probe, "RENAME data %s", name), 0);
}

void kind_assert_replaced(struct fixture *f, const char *name, size_t nth)
{
    assert_string_equal(probe_text(f->probe, "TYPE %s", name), other_type(nth));
    assert_int_equal(probe_pttl(f->probe, name), -1);
    assert_int_equal(probe_int(f->probe, "FLUSHALL"), 0); /* also levels of a lost reader */
}

/* ---- the cases ----------------------------------------------------------------------------- */

static int begin(enum kind_no kind, void **state)
{
    kind_choose(kind);
    return fixture_begin(state);
}

int kinds_begin_reentrant(void **state)
{
    return begin(KIND_REENTRANT, state);
}

int kinds_begin_fenced(void **state)
{
    return begin(KIND_FENCED, state);
}

int kinds_begin_spin(void **state)
{
    return begin(KIND_SPIN, state);
}

int kinds_begin_fair(void **state)
{
    return begin(KIND_FAIR, state);
}

int kinds_begin_plain(void **state)
{
    return begin(KIND_PLAIN, state);
}

int kinds_begin_read(void **state)
{
    return begin(KIND_READ, state);
}

int kinds_begin_write(void **state)
{
    return begin(KIND_WRITE, state);
}

int kinds_begin_semaphore(void **state)
{
    return begin(KIND_SEMAPHORE, state);
}

int kinds_end_semaphore(void **state)
{
    static const char script[] = "for _, key in ipairs(redis.call('keys', '*')) do"
                                 "    if redis.call('type', key).ok == 'string' then"
                                 "        redis.call('del', key) "
                                 "    end "
                                 "end "
                                 "return 0";
    struct fixture *f = *state;

    server_resume(f->server);
    probe_int(f->probe, "EVAL %s 0", script);
    kind_choose(KIND_REENTRANT);
    return fixture_end_fenced(state);
}
