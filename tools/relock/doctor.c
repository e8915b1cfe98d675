/*
 * relock doctor - what is fine with a server, what is not, and what to do
 *
 * Log lines of the library count as findings, too: they name missing rights, for example.
 */
#include "checks.h"
#include "session.h"
#include "statuses.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NAME "relock:doctor"
#define MOST_LINES 20
#define LINE_MAX 400

enum { DOCTOR_NAME = ARGS_OWN };

struct doctor {
    struct args args;
    const char *name;
    struct findings findings;

    pthread_mutex_t mutex;
    char lines[MOST_LINES][LINE_MAX]; /* of the log; guarded by mutex */
    size_t n_lines;                   /* the same */
};

static void read_options(struct doctor *doctor, int argc, char **argv)
{
    static const struct option known[] = {
        {"name", required_argument, NULL, DOCTOR_NAME}, ARGS_JSON_OPTION, ARGS_OPTIONS};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == DOCTOR_NAME)
            doctor->name = optarg;
        else
            args_take(&doctor->args, letter);
    if (optind + 1 < argc)
        args_refuse(&doctor->args, "one url at most");
    if (optind < argc)
        doctor->args.url = argv[optind];
}

/* Both clients log the same. */
static bool has_line(const struct doctor *doctor, const char *text)
{
    for (size_t i = 0; i < doctor->n_lines; i++)
        if (strncmp(doctor->lines[i], text, LINE_MAX - 1) == 0)
            return true;
    return false;
}

static void keep_line(int level, const char *text, void *arg)
{
    struct doctor *doctor = arg;
    char line[SESSION_LINE_MAX];

    session_words(text, line);
    (void)pthread_mutex_lock(&doctor->mutex);
    /* Of eviction there is a check. */
    if (level <= RELOCK_LOG_WARNING && doctor->n_lines < MOST_LINES && !has_line(doctor, line) &&
        !strstr(line, "maxmemory-policy"))
        (void)snprintf(doctor->lines[doctor->n_lines++], LINE_MAX, "%.*s", LINE_MAX - 1, line);
    (void)pthread_mutex_unlock(&doctor->mutex);
}

static int make_client(struct doctor *doctor, struct relock_client **client)
{
    struct relock_options options = {.connections = 1, .on_log = keep_line, .arg = doctor};

    return session_try(&doctor->args, &options, client);
}

/* Why there is no client: the library has logged it last. */
static void add_connection(struct doctor *doctor, int result)
{
    const char *advice = NULL;
    const char *why = relock_strerror(result);

    if (result == RELOCK_E_CONN)
        advice = "start the server, or name another: --url or RELOCK_URL";
    else if (result == RELOCK_E_AUTH)
        advice = "set RELOCK_USER and RELOCK_PASSWORD, or --password-file";
    if (doctor->n_lines > 0)
        why = doctor->lines[--doctor->n_lines];
    findings_add(&doctor->findings, FINDING_BAD, "connection", advice, "%s", why);
}

static void examine(struct doctor *doctor)
{
    struct relock_client *holder = NULL, *waiter = NULL;
    int r = make_client(doctor, &holder);

    if (r == RELOCK_OK)
        r = make_client(doctor, &waiter);
    if (r == RELOCK_OK) {
        int told = relock_servers(holder, checks_of_server, &doctor->findings);

        if (told != RELOCK_OK)
            findings_add(&doctor->findings, FINDING_NOTE, "server",
                         "give this user the right to INFO, if the server has it", "%s",
                         relock_strerror(told));
        checks_of_kinds(holder, waiter, doctor->name, &doctor->findings);
    }
    relock_client_free(waiter);
    relock_client_free(holder); /* after this, the log is complete */
    if (r != RELOCK_OK)
        add_connection(doctor, r);
    for (size_t i = 0; i < doctor->n_lines; i++)
        findings_add(&doctor->findings, FINDING_NOTE, "log", NULL, "%s", doctor->lines[i]);
}

static int run_doctor(const struct command *self, int argc, char **argv)
{
    static struct doctor doctor = {.name = NAME, .mutex = PTHREAD_MUTEX_INITIALIZER};
    int status;

    doctor.args.command = self;
    read_options(&doctor, argc, argv);
    examine(&doctor);
    status = findings_print(&doctor.findings, doctor.args.is_json);
    findings_free(&doctor.findings);
    return status;
}

const struct command command_doctor = {
    "doctor",
    "check a server, and this user's rights",
    "Usage: relock doctor [OPTION]... [URL]\n"
    "Connects to the server, or to each master of a cluster. Checks version,\n"
    "eviction, persistence, replicas and their clocks, connections and clock. Then\n"
    "acquires, awaits and releases a lock of each kind, which shows whether this\n"
    "user has the rights. Says what is fine (ok), good to know (note) or wrong (bad),\n"
    "and what to do.\n"
    "      --name NAME           names the locks NAME:fair and so on [relock:doctor];\n"
    "                            of NAME:fenced, a token counter stays\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             no effect: the log is part of the findings\n"
    "Exit status: 0 if nothing is bad, 1 if something is, 125 for wrong usage.\n",
    run_doctor,
};
