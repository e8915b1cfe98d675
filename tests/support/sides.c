#include "support/sides.h"

struct sides sides_of(struct fixture *f, struct relock_client *client)
{
    return (struct sides){
        .read = fixture_lock_of(f, client, "orders", relock_rdlock_new),
        .write = fixture_lock_of(f, client, "orders", relock_wrlock_new),
    };
}

struct relock_holder sides_holder(struct relock_lock *side)
{
    struct relock_holder holder = {.id = ""};

    assert_result(relock_who_holds(side, &holder), RELOCK_OK);
    return holder;
}

long long sides_level_rest(struct probe *probe, const char *id, unsigned level)
{
    return probe_int(probe, "PTTL {orders}:%s:rwlock_timeout:%u", id, level);
}
