#include "usage.h"

#include "measure.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
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

size_t usage_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long size, resident;

    if (!file || fscanf(file, "%lu %lu", &size, &resident) != 2)
        die("no /proc/self/statm");
    fclose(file);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

unsigned usage_threads(void)
{
    DIR *dir = opendir("/proc/self/task");
    struct dirent *entry;
    unsigned n = 0;

    if (!dir)
        die("no /proc/self/task");
    while ((entry = readdir(dir)))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec ts;

    if (clock_gettime(clock, &ts) != 0)
        return 0; /* it has ended */
    return ((uint64_t)ts.tv_sec * 1000000000) + (uint64_t)ts.tv_nsec;
}

uint64_t usage_process_cpu_ns(pid_t pid)
{
    clockid_t clock;

    return clock_getcpuclockid(pid, &clock) == 0 ? read_clock(clock) : 0;
}

/* "cpu", then user, nice, system, idle, iowait, irq, softirq and steal. */
uint64_t usage_machine_cpu_ns(void)
{
    FILE *file = fopen("/proc/stat", "re");
    unsigned long long t[8];
    int n = file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2],
                          &t[3], &t[4], &t[5], &t[6], &t[7])
                 : 0;

    if (n != 8)
        die("no /proc/stat");
    fclose(file);
    return (t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
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
