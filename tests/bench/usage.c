#include "usage.h"

#include "measure.h"

#include <dirent.h>
#include <malloc.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
size_t usage_memory(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}
#else
size_t usage_memory(void)
{
    return 0;
}
#endif

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    if (clock_gettime(clock, &ts) != 0)
        return 0; /* the thread has ended */
    return ((uint64_t)ts.tv_sec * 1000000000) + (uint64_t)ts.tv_nsec;
}

uint64_t usage_own_cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* The kernel's numbering of these clocks: pthread_getcpuclockid() accepts only threads of this
 * library. */
static clockid_t clock_of(long thread)
{
    return (clockid_t)((~(unsigned)thread << 3) | 6);
}

uint64_t usage_others_cpu_ns(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    uint64_t ns = 0;

    if (!dir)
        die("no /proc/self/task");
    while ((entry = readdir(dir))) {
        long thread = strtol(entry->d_name, NULL, 10);

        if (thread > 0 && thread != gettid())
            ns += read_clock(clock_of(thread));
    }
    closedir(dir);
    return ns;
}
