#include "support/kinds.h"

#include "support/peer.h"
#include "support/plain_peer.h"

#include <string.h>

const struct kind kinds[KINDS_N] = {
    [KIND_REENTRANT] = {"reentrant", relock_lock_new, false},
    [KIND_FENCED] = {"fenced", relock_fencedlock_new, false},
    [KIND_SPIN] = {"spin", relock_spinlock_new, false},
    [KIND_FAIR] = {"fair", relock_fairlock_new, false},
    [KIND_PLAIN] = {"plain", relock_plainlock_new, true},
};

static const struct kind *now;

const struct kind *kind_now(void)
{
    return now;
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

bool kind_has_levels(struct fixture *f, const char *name, long long levels)
{
    if (now->is_string)
        return strlen(kind_holder(f, name)) == 40;
    return probe_only_value(f->probe, name) == levels;
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

/* ---- the cases ----------------------------------------------------------------------------- */

static int begin(enum kind_no kind, void **state)
{
    now = &kinds[kind];
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
