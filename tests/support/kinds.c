#include "support/kinds.h"

const struct kind kinds[KINDS_N] = {
    [KIND_REENTRANT] = {"reentrant", relock_lock_new},
    [KIND_FENCED] = {"fenced", relock_fencedlock_new},
    [KIND_SPIN] = {"spin", relock_spinlock_new},
    [KIND_FAIR] = {"fair", relock_fairlock_new},
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

int kinds_begin_reentrant(void **state)
{
    now = &kinds[KIND_REENTRANT];
    return fixture_begin(state);
}

int kinds_begin_fenced(void **state)
{
    now = &kinds[KIND_FENCED];
    return fixture_begin(state);
}

int kinds_begin_spin(void **state)
{
    now = &kinds[KIND_SPIN];
    return fixture_begin(state);
}

int kinds_begin_fair(void **state)
{
    now = &kinds[KIND_FAIR];
    return fixture_begin(state);
}
