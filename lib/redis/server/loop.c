#include "redis/server/loop.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "base/thread.h"

#include <errno.h>
#include <ev.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* A longer sleep is split; the iterations in between do no harm. */
#define LONGEST_SLEEP_MS 3600000

struct relock_loop {
    /* constant while the thread runs */
    relock_iteration_fn *iterate;
    void *arg;
    struct ev_loop *ev;
    pthread_t thread;
    bool started;
    int wake_fd;

    atomic_bool woken; /* wake_fd is readable, or about to be */
    atomic_bool stopping;

    struct {
        ev_io wake;
        ev_prepare prepare;
        ev_timer timer;
    } loop; /* the I/O thread only */
};

static void on_wake(struct ev_loop *ev, ev_io *watcher, int events)
{
    struct relock_loop *loop = watcher->data;
    eventfd_t count;

    (void)ev;
    (void)events;
    (void)eventfd_read(loop->wake_fd, &count);
    /* Work that was added before this is seen by the next iteration; later work wakes again. */
    atomic_store(&loop->woken, false);
    if (atomic_load(&loop->stopping))
        ev_break(loop->ev, EVBREAK_ALL);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
    (void)ev;
    (void)watcher;
    (void)events; /* the iteration before the next wait does the work that is due */
}

static void on_prepare(struct ev_loop *ev, ev_prepare *watcher, int events)
{
    struct relock_loop *loop = watcher->data;
    uint64_t next_ms = loop->iterate(loop->arg);
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t left_ms = relock_clock_left(now_ms, next_ms);

    (void)events;
    ev_timer_stop(ev, &loop->loop.timer);
    if (next_ms == RELOCK_NEVER)
        return;
    if (left_ms > LONGEST_SLEEP_MS)
        left_ms = LONGEST_SLEEP_MS;
    /* The iteration has taken time. */
    ev_now_update(ev);
    ev_timer_set(&loop->loop.timer, (double)left_ms / 1000, 0.);
    ev_timer_start(ev, &loop->loop.timer);
}

int relock_loop_new(relock_iteration_fn *iterate, void *arg, struct relock_loop **loop)
{
    struct relock_loop *new = calloc(1, sizeof(*new));
    int r, err;

    if (!new)
        return RELOCK_E_NOMEM;
    new->iterate = iterate;
    new->arg = arg;
    atomic_init(&new->woken, false);
    atomic_init(&new->stopping, false);
    new->wake_fd = relock_descriptor_eventfd(arg);
    err = errno;
    new->ev = ev_loop_new(EVBACKEND_POLL | EVFLAG_NOENV);
    if (new->wake_fd < 0 || !new->ev) {
        r = new->wake_fd < 0 ? relock_status_result(err) : RELOCK_E_NOMEM;
        relock_loop_free(new);
        return r;
    }
    ev_io_init(&new->loop.wake, on_wake, new->wake_fd, EV_READ);
    new->loop.wake.data = new;
    ev_io_start(new->ev, &new->loop.wake);
    ev_prepare_init(&new->loop.prepare, on_prepare);
    new->loop.prepare.data = new;
    ev_prepare_start(new->ev, &new->loop.prepare);
    ev_timer_init(&new->loop.timer, on_timer, 0., 0.);
    *loop = new;
    return RELOCK_OK;
}

static void *run(void *arg)
{
    struct relock_loop *loop = arg;

    ev_run(loop->ev, 0);
    return NULL;
}

int relock_loop_start(struct relock_loop *loop)
{
    int r = relock_thread_start(&loop->thread, "relock:io", run, loop);

    if (r == RELOCK_OK)
        loop->started = true;
    return r;
}

void relock_loop_stop(struct relock_loop *loop)
{
    if (!loop->started)
        return;
    atomic_store(&loop->stopping, true);
    relock_loop_wake(loop);
    (void)pthread_join(loop->thread, NULL);
    loop->started = false;
}

struct relock_loop *relock_loop_free(struct relock_loop *loop)
{
    if (!loop)
        return NULL;
    if (loop->ev)
        ev_loop_destroy(loop->ev);
    (void)relock_descriptor_close(loop->wake_fd);
    free(loop);
    return NULL;
}

void relock_loop_wake(struct relock_loop *loop)
{
    if (!atomic_exchange(&loop->woken, true))
        (void)eventfd_write(loop->wake_fd, 1);
}

struct ev_loop *relock_loop_ev(struct relock_loop *loop)
{
    return loop->ev;
}
