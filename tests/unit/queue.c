#include "queue.h"

#include "base/clock.h"
#include "lock/client.h"

struct relock_site site;
struct relock_waiter waiters[N_WAITERS];
struct relock_hold hold;

static struct relock_client client; /* only its mutex is looked at */

int queue_begin(void **state)
{
    (void)state;
    relock_mutex_init(&client.mutex);
    site = (struct relock_site){
        .client = &client, .kind = &relock_kind_reentrant, .lease_end_ms = RELOCK_NEVER};
    hold = (struct relock_hold){0};
    for (unsigned i = 0; i < N_WAITERS; i++) {
        waiters[i] = (struct relock_waiter){.owner = i + 1, .joined_ms = 100 * i};
        relock_gate_init(&waiters[i].gate);
    }
    return 0;
}

int queue_end(void **state)
{
    (void)state;
    relock_mutex_deinit(&client.mutex);
    return 0;
}

void join_all(void)
{
    for (int i = 0; i < N_WAITERS; i++)
        relock_site_join(&site, &waiters[i]);
    (void)is_woken(0);
}

bool may_ask(int i)
{
    return relock_site_may_ask(&site, &waiters[i]);
}

void ask(int i)
{
    assert_true(may_ask(i));
    site.news = false;
}

void take(void)
{
    site.holder = &hold;
}

bool is_woken(int i)
{
    return relock_gate_wait(&waiters[i].gate, 0);
}

void nobody_is_woken(void)
{
    for (int i = 0; i < N_WAITERS; i++)
        assert_false(is_woken(i));
}
