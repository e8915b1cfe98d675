/*
 * The second of the two threads frees the orphan, so no state follows ADOPTED or ENDED.
 *
 *     state      next       when
 *     PENDING    ADOPTED    its caller adopts or drops it; the driver then frees it at its end
 *                ENDED      the driver ends it; its caller then frees it
 */
#include "redis/lane/orphan.h"

#include "base/container.h"
#include "redis/connect/conn_id.h"
#include "redis/server/reply.h"

#include <stdlib.h>

enum state { PENDING, ADOPTED, ENDED };

struct relock_orphan *relock_orphan_new(const struct relock_exchange *exchange,
                                        struct relock_conn_id *conn_id)
{
    struct relock_orphan *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    atomic_init(&new->state, PENDING);
    new->exchange.is_orphan = true;
    new->exchange.n_left = exchange->n_left;
    new->exchange.forms = exchange->forms;
    new->exchange.forms_before = exchange->forms_before;
    new->exchange.limit_ms = exchange->limit_ms;
    new->exchange.conn_id = conn_id ? relock_conn_id_ref(conn_id) : NULL;
    return new;
}

struct relock_orphan *relock_orphan_of(struct relock_exchange *exchange)
{
    return RELOCK_CONTAINER(struct relock_orphan, exchange, exchange);
}

static void destroy(struct relock_orphan *orphan)
{
    relock_reply_free(orphan->exchange.before);
    relock_reply_free(orphan->exchange.reply);
    relock_conn_id_unref(orphan->exchange.conn_id);
    free(orphan);
}

bool relock_orphan_adopt(struct relock_orphan *orphan, relock_orphan_fn *fn, void *arg,
                         bool *answered)
{
    orphan->fn = fn;
    orphan->arg = arg;
    if (atomic_exchange(&orphan->state, ADOPTED) == PENDING)
        return true;
    *answered = orphan->answered;
    destroy(orphan);
    return false;
}

void relock_orphan_drop(struct relock_orphan *orphan)
{
    bool answered;

    if (orphan)
        (void)relock_orphan_adopt(orphan, NULL, NULL, &answered);
}

void relock_orphan_end(struct relock_orphan *orphan, bool answered)
{
    orphan->answered = answered;
    if (atomic_exchange(&orphan->state, ENDED) == PENDING)
        return;
    if (orphan->fn)
        orphan->fn(orphan->arg, orphan->exchange.conn_id, answered);
    destroy(orphan);
}
