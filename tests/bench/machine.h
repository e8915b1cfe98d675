/*
 * Machine - the machine and the server of a measurement
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_MACHINE_H
#define RELOCK_BENCH_MACHINE_H

struct machine {
    char date[32];
    char cpu[96];
    unsigned n_cores;
    double load; /* of the last minute, before the bench adds its own */
    char kernel[96];
    char server[64];
    char hiredis[16];
    const char *compiler;
    const char *build;
};

/* `url` as for bare_connect(). */
void machine_look(struct machine *machine, const char *url);

#endif
