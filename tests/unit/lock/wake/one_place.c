#include "one_place.h"

#include "lock/wake/wake.h"

#include <string.h>

struct relock_waiter waiter;

int one_place_begin(void **state)
{
    (void)state;
    offline_begin();
    strcpy(client.id, ID);
    waiter = (struct relock_waiter){.owner = 1};
    relock_gate_init(&waiter.gate);
    relock_resource_enqueue(resource, &waiter);
    resource->retry = RELOCK_RETRY_NONE;
    return relock_resource_contend(resource) ? 0 : -1;
}

bool fire_next(void)
{
    struct relock_timer *timer = relock_timers_pop(&client.guarded.timers, RELOCK_NEVER);

    if (timer)
        timer->fire(timer, 0);
    return timer != NULL;
}

/* Ends a subscription that has not begun, and drops the commands that were not sent. */
int one_place_end(void **state)
{
    (void)state;
    if (resource->queue)
        relock_resource_dequeue(resource, &waiter);
    relock_line_granted(&client, resource, true);
    while (fire_next())
        ;
    relock_mutex_lock(&client.mutex);
    relock_line_close(&client);
    relock_client_run_tasks(&client);
    relock_mutex_unlock(&client.mutex);
    return offline_end();
}

bool has_timer(void)
{
    return relock_timers_next_ms(&client.guarded.timers) != RELOCK_NEVER;
}

enum relock_line_state is_now(void)
{
    return resource->contention->line.state;
}

struct relock_line_view view(void)
{
    return relock_resource_view_line(resource);
}

void be_refused_at(uint64_t place)
{
    struct relock_line_view sent = view();

    relock_line_refused(&client, resource, &sent, &(struct relock_busy){.place = place});
}

void hear(const char *verb)
{
    relock_line_hear(&client, resource, (struct relock_text){verb, strlen(verb)});
}

const struct relock_outbox_entry *posted(void)
{
    return client.guarded.leaving.posted;
}
