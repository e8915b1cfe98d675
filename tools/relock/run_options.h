/* Run options - what `relock run` is to do */
#ifndef RELOCK_TOOL_RUN_OPTIONS_H
#define RELOCK_TOOL_RUN_OPTIONS_H

#include "session.h"

#include <stddef.h>

struct run_options {
    struct args args;
    constructor_fn *constructor;
    const char *like;    /* the library that shares the lock, a plain one; NULL: none */
    uint64_t n_permits;  /* of the semaphore, which then is the one lock; 0: it is none */
    bool changes_number; /* of permits, if the semaphore has another one */
    int64_t wait_ms;
    uint64_t lease_ms;  /* of each renewal; with --once-per at most a tenth of the period */
    uint64_t period_ms; /* --once-per; 0: each time */
    uint64_t grace_ms;  /* between SIGTERM and SIGKILL */
    int lost_signal;    /* SIGTERM, SIGKILL, or 0 to warn only */
    int conflict_status;
    bool is_quiet; /* says nothing about a lock that is not free, nor of an outage that may end */
    char **names;
    size_t n_names;
    bool has_dashes;   /* between the names and the command */
    const char *title; /* all names, with blanks between them */
    char **command;    /* ends with NULL */
};

/* Exits if they are wrong. */
void run_options_read(struct run_options *options, const struct command *command, int argc,
                      char **argv);

#endif
