#include "measure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ((uint64_t)ts.tv_sec * NS_PER_S) + (uint64_t)ts.tv_nsec;
}

uint64_t seconds_to_ns(double seconds)
{
    return (uint64_t)(seconds * (double)NS_PER_S);
}

void sleep_ns(uint64_t ns)
{
    struct timespec ts = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

    while (nanosleep(&ts, &ts) != 0)
        continue;
}

void sleep_until_ns(uint64_t until_ns)
{
    uint64_t at_ns = now_ns();

    if (at_ns < until_ns)
        sleep_ns(until_ns - at_ns);
}

/* ---- samples ------------------------------------------------------------------------------- */

void samples_add(struct samples *samples, uint64_t ns)
{
    if (samples->n == samples->size) {
        samples->size = samples->size ? samples->size * 2 : 4096;
        samples->ns = realloc(samples->ns, samples->size * sizeof(*samples->ns));
        if (!samples->ns)
            die("out of memory");
    }
    samples->ns[samples->n++] = ns;
}

void samples_add_all(struct samples *samples, const struct samples *others)
{
    for (size_t i = 0; i < others->n; i++)
        samples_add(samples, others->ns[i]);
}

void samples_clear(struct samples *samples)
{
    samples->n = 0;
}

void samples_free(struct samples *samples)
{
    free(samples->ns);
    *samples = (struct samples){0};
}

static int compare_ns(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

double samples_percentile_us(struct samples *samples, double percent)
{
    size_t rank;

    if (samples->n == 0)
        die("nothing was measured");
    qsort(samples->ns, samples->n, sizeof(*samples->ns), compare_ns);
    rank = (size_t)((double)(samples->n - 1) * percent / 100 + 0.5);
    return (double)samples->ns[rank] / 1000;
}

/* ---- series -------------------------------------------------------------------------------- */

void series_add(struct series *series, double value)
{
    if (series->n == ROUNDS_MAX)
        die("more than %d rounds", ROUNDS_MAX);
    series->at[series->n++] = value;
}

static int compare_doubles(const void *a, const void *b)
{
    const double *left = a, *right = b;

    return (*left > *right) - (*left < *right);
}

struct summary series_summary(const struct series *series)
{
    double at[ROUNDS_MAX];
    unsigned n = series->n;

    if (n == 0)
        return (struct summary){0};
    memcpy(at, series->at, n * sizeof(*at));
    qsort(at, n, sizeof(*at), compare_doubles);
    return (struct summary){
        .median = (at[(n - 1) / 2] + at[n / 2]) / 2,
        .min = at[0],
        .max = at[n - 1],
    };
}

struct series series_ratio(const struct series *ours, const struct series *bare)
{
    struct series ratio = {0};

    for (unsigned i = 0; i < ours->n && i < bare->n; i++)
        series_add(&ratio, bare->at[i] > 0 ? ours->at[i] / bare->at[i] : 0);
    return ratio;
}

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("relock-bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(EXIT_FAILURE);
}
