/* LD_PRELOAD for a server: its date is CLOCK_AHEAD_S seconds ahead of this machine's, or behind;
 * and stands still if CLOCK_STANDS is set. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void ask_date(struct timespec *ts)
{
    static struct timespec first;
    const char *ahead_s = getenv("CLOCK_AHEAD_S");

    (void)syscall(SYS_clock_gettime, CLOCK_REALTIME, ts);
    if (getenv("CLOCK_STANDS") && first.tv_sec > 0)
        *ts = first;
    first = *ts;
    ts->tv_sec += ahead_s ? strtol(ahead_s, NULL, 10) : 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;

    (void)zone;
    ask_date(&ts);
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ts)
{
    if (clock != CLOCK_REALTIME)
        return (int)syscall(SYS_clock_gettime, clock, ts);
    ask_date(ts);
    return 0;
}
