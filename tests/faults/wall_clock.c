#include "wall_clock.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MAX_ASKERS 16

/* By the address at which a program or library begins; the last entry counts those that found no
 * room. */
static struct {
    _Atomic(void *) base;
    atomic_size_t n;
} askers[MAX_ASKERS];

static _Atomic(int64_t) off_s;

static void *base_of(const void *code)
{
    Dl_info info;

    return dladdr(code, &info) ? info.dli_fbase : NULL;
}

static void count(const void *caller)
{
    void *base = base_of(caller);
    size_t i = 0;

    for (; i < MAX_ASKERS - 1; i++) {
        void *free_one = NULL;

        if (atomic_compare_exchange_strong(&askers[i].base, &free_one, base) || free_one == base)
            break;
    }
    atomic_fetch_add(&askers[i].n, 1);
}

static int ask(clockid_t clock, struct timespec *ts)
{
    return (int)syscall(SYS_clock_gettime, clock, ts);
}

static void ask_date(struct timespec *ts, const void *caller)
{
    count(caller);
    (void)ask(CLOCK_REALTIME, ts);
    ts->tv_sec += atomic_load(&off_s);
}

static bool is_date(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI ||
           clock == CLOCK_REALTIME_ALARM;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (!is_date(clock))
        return ask(clock, ts);
    ask_date(ts, __builtin_return_address(0));
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;

    (void)zone;
    ask_date(&ts, __builtin_return_address(0));
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *at)
{
    struct timespec ts;

    ask_date(&ts, __builtin_return_address(0));
    if (at)
        *at = ts.tv_sec;
    return ts.tv_sec;
}

void wall_clock_set_off(int64_t seconds)
{
    atomic_store(&off_s, seconds);
}

static size_t asked(const char *function, bool by_others)
{
    void *base = base_of(dlsym(RTLD_DEFAULT, function));
    size_t n = 0;

    for (size_t i = 0; i < MAX_ASKERS; i++)
        if ((atomic_load(&askers[i].base) != base) == by_others)
            n += atomic_load(&askers[i].n);
    return n;
}

size_t wall_clock_asked_by(const char *function)
{
    return asked(function, false);
}

size_t wall_clock_asked_by_others(const char *function)
{
    return asked(function, true);
}
