/*
 * relock-bench - what the library costs, against hiredis alone on the same server
 *
 *     relock-bench URL [--rounds N] [--seconds S] [--json]
 *
 * URL is redis://host[:port] or unix://path; the server is written to, and best has nothing else to
 * do. Ends with success if it ran and all counts were right, whatever the times were: ratios mean
 * something on a quiet machine only.
 */
#include "machine.h"
#include "rows.h"

#include <getopt.h>
#include <stdlib.h>

#define DEFAULT_ROUNDS 10
#define DEFAULT_SECONDS 0.5
#define SECONDS_MAX 3600.0

#define USAGE                                                            \
    "usage: relock-bench URL [--rounds N] [--seconds S] [--json]\n"      \
    "\n"                                                                 \
    "  URL          redis://host[:port] or unix://path\n"                \
    "  --rounds N   each side of each row runs N times, in turns [10]\n" \
    "  --seconds S  for so long each time [0.5]\n"                       \
    "  --json       JSON on the standard output, the table on the standard error\n"

static row_fn *const rows[] = {
    row_uncontended,
    row_own_locks,
    row_one_lock,
    row_passing,
};

static void refuse(void)
{
    fputs(USAGE, stderr);
    exit(2);
}

static double number_of(const char *text, double min, double max)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !(number >= min && number <= max))
        refuse();
    return number;
}

static bool read_args(int argc, char **argv, struct plan *plan)
{
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'},
        {"seconds", required_argument, NULL, 's'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {0},
    };
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'r':
            plan->rounds = (unsigned)number_of(optarg, 1, ROUNDS_MAX);
            break;
        case 's':
            plan->seconds = number_of(optarg, 0.01, SECONDS_MAX);
            break;
        case 'j':
            json = true;
            break;
        case 'h':
            fputs(USAGE, stdout);
            exit(EXIT_SUCCESS);
        default:
            refuse();
        }
    }
    if (argc - optind != 1)
        refuse();
    plan->url = argv[optind];
    return json;
}

int main(int argc, char **argv)
{
    static struct report report;
    struct plan plan = {.rounds = DEFAULT_ROUNDS, .seconds = DEFAULT_SECONDS};
    struct machine machine;
    unsigned n_shown = 0;
    bool json = read_args(argc, argv, &plan);
    FILE *table = json ? stderr : stdout;

    machine_look(&machine, plan.url);
    report_machine_text(&machine, table);
    fprintf(table, "%s, %u rounds of %g s for each side, in turns\n", plan.url, plan.rounds,
            plan.seconds);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rows[i](&plan, &report);
        while (n_shown < report.n_results)
            result_text(&report.results[n_shown++], table);
    }
    if (json)
        report_json(&report, &machine, stdout);
    return EXIT_SUCCESS;
}
