#include "arguments.h"

#include "names.h"
#include "schedule.h"
#include "worker.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--seed N] [--seconds S] [--processes P] [--threads T] [--red] [--hot]\n"
            "       [--keep] [--tls] [--cluster] [--plain] [--sentinel] [--min-replicas N]\n"
            "       [--no-watchdog] [--forget] [--silent] [--expect-two-holders]\n"
            "       [--expect-sleepers]\n",
            program);
    exit(EXIT_FAILURE);
}

static void read_options(struct arguments *a, int argc, char **argv)
{
    const struct option known[] = {
        {"seed", required_argument, NULL, 's'},
        {"seconds", required_argument, NULL, 'n'},
        {"processes", required_argument, NULL, 'p'},
        {"threads", required_argument, NULL, 't'},
        {"red", no_argument, &a->set, NAMES_RED},
        {"hot", no_argument, &a->set, NAMES_HOT},
        {"keep", no_argument, &a->keeps, true},
        {"tls", no_argument, &a->has_tls, true},
        {"cluster", no_argument, &a->is_cluster, true},
        {"plain", no_argument, &a->is_plain, true},
        {"sentinel", no_argument, &a->set, NAMES_EVEN},
        {"min-replicas", required_argument, NULL, 'm'},
        {"no-watchdog", no_argument, &a->no_watchdog, true},
        {"forget", no_argument, &a->forgets, true},
        {"silent", no_argument, &a->is_silent, true},
        {"expect-two-holders", no_argument, &a->expects_two_holders, true},
        {"expect-sleepers", no_argument, &a->expects_sleepers, true},
        {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (c) {
        case 0:
            break;
        case 's':
            a->seed = strtoull(optarg, NULL, 10);
            break;
        case 'n':
            a->seconds = strtoull(optarg, NULL, 10);
            break;
        case 'p':
            a->n_processes = atoi(optarg);
            break;
        case 'm':
            a->min_replicas = atoi(optarg);
            break;
        case 't':
            a->n_threads = atoi(optarg);
            break;
        default:
            usage(argv[0]);
        }
    }
}

void arguments_read(struct arguments *a, int argc, char **argv)
{
    read_options(a, argc, argv);
    if (a->n_processes == 0)
        a->n_processes = a->set == NAMES_HOT ? 50 : 4;
    if (a->min_replicas < 0)
        a->min_replicas = a->set == NAMES_EVEN || (a->is_cluster && a->set != NAMES_HOT);
    if (a->n_threads == 0)
        a->n_threads = a->set == NAMES_HOT ? 2 : 5;
    if (optind < argc || a->seconds == 0 || a->n_processes < 1 || a->n_threads < 1 ||
        (a->forgets && a->set != NAMES_RED) || (a->is_silent && a->set != NAMES_HOT) ||
        (a->has_tls && a->set == NAMES_RED) || (a->is_plain && !a->is_cluster) ||
        (a->is_cluster && a->set != NAMES_MIXED && a->set != NAMES_HOT) ||
        (a->set == NAMES_HOT && a->n_threads < NAMES_N_HOT) ||
        a->n_processes > SCHEDULE_MAX_SLOTS || a->n_threads > WORKER_MAX_THREADS)
        usage(argv[0]);
}
