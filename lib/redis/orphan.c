#include "redis/orphan.h"

#include "redis/origin.h"
#include "redis/reply.h"

#include <stdlib.h>

enum state { PENDING, ADOPTED, ENDED };

struct relock_orphan *relock_orphan_new(const struct relock_question *question,
                                        struct relock_origin *origin)
{
    struct relock_orphan *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    atomic_init(&new->state, PENDING);
    new->question.is_orphan = true;
    new->question.n_left = question->n_left;
    new->question.limit_ms = question->limit_ms;
    new->question.origin = origin ? relock_origin_ref(origin) : NULL;
    return new;
}

static void destroy(struct relock_orphan *orphan)
{
    relock_reply_free(orphan->question.before);
    relock_reply_free(orphan->question.reply);
    relock_origin_unref(orphan->question.origin);
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
        orphan->fn(orphan->arg, orphan->question.origin, answered);
    destroy(orphan);
}
