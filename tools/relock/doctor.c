/*
 * relock doctor - what is fine with a server, what is not, and what to do
 *
 * Log lines of the library count as findings, too: they name missing rights, for example.
 */
#include "checks.h"
#include "rights.h"
#include "session.h"
#include "statuses.h"
#include "trials.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define NAME "relock:doctor"
#define MOST_LINES 20
#define LINE_MAX 400
#define MOST_KINDS 16

enum { DOCTOR_NAME = ARGS_OWN, DOCTOR_KIND };

struct doctor {
    struct args args;
    const char *name;
    const char *kinds[MOST_KINDS]; /* NULL behind the last */
    struct findings findings;

    pthread_mutex_t mutex;
    char lines[MOST_LINES][LINE_MAX]; /* of the log; guarded by mutex */
    size_t n_lines;                   /* the same */
};

static void add_kind(struct doctor *doctor, const char *kind)
{
    size_t n = 0;

    if (!rights_has_kind(kind))
        rights_refuse_kind(&doctor->args, kind);
    if (!rights_are_tried(kind))
        args_refuse(&doctor->args, "`%s` cannot be tried: that library names the keys", kind);
    while (doctor->kinds[n])
        n++;
    if (n + 1 < MOST_KINDS)
        doctor->kinds[n] = kind;
}

static void read_options(struct doctor *doctor, int argc, char **argv)
{
    static const struct option known[] = {{"name", required_argument, NULL, DOCTOR_NAME},
                                          {"kind", required_argument, NULL, DOCTOR_KIND},
                                          ARGS_JSON_OPTION,
                                          ARGS_OPTIONS};
    static const char *const all[] = {"reentrant", "fair", "fenced", "read-write", "spin", "plain"};
    int letter;

    while ((letter = getopt_long(argc, argv, ARGS_LETTERS, known, NULL)) >= 0)
        if (letter == DOCTOR_NAME)
            doctor->name = optarg;
        else if (letter == DOCTOR_KIND)
            add_kind(doctor, optarg);
        else
            args_take(&doctor->args, letter);
    if (optind + 1 < argc)
        args_refuse(&doctor->args, "one url at most");
    if (strlen(doctor->name) > TRIALS_NAME_MAX)
        args_refuse(&doctor->args, "--name: at most %d bytes", TRIALS_NAME_MAX);
    if (optind < argc)
        doctor->args.url = argv[optind];
    if (!doctor->kinds[0])
        memcpy(doctor->kinds, all, sizeof(all));
}

/* All clients log the same. */
static bool has_line(const struct doctor *doctor, const char *text)
{
    for (size_t i = 0; i < doctor->n_lines; i++)
        if (strncmp(doctor->lines[i], text, LINE_MAX - 1) == 0)
            return true;
    return false;
}

static void keep_line(const struct relock_record *record, void *arg)
{
    struct doctor *doctor = arg;
    char line[SESSION_LINE_MAX];

    session_words(record, line);
    (void)pthread_mutex_lock(&doctor->mutex);
    /* Of eviction there is a check. */
    if (record->level <= RELOCK_LOG_WARNING && doctor->n_lines < MOST_LINES &&
        !trials_expect(record) && !has_line(doctor, line) && !strstr(line, "maxmemory-policy"))
        (void)snprintf(doctor->lines[doctor->n_lines++], LINE_MAX, "%.*s", LINE_MAX - 1, line);
    (void)pthread_mutex_unlock(&doctor->mutex);
}

static int make_client(struct doctor *doctor, uint64_t flags, struct relock_client **client)
{
    struct relock_options options = {
        .connections = 1,
        .deadlock_ms = TRIALS_DEADLOCK_MS,
        .recheck_ms = TRIALS_RECHECK_MS,
        .flags = flags,
        .log_level = RELOCK_LOG_WARNING,
        .on_record = keep_line,
        .arg = doctor,
    };

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

static void examine_server(struct doctor *doctor, struct relock_client *client)
{
    int told = relock_servers(client, checks_of_server, &doctor->findings);

    if (told != RELOCK_OK)
        findings_add(&doctor->findings, FINDING_NOTE, "server",
                     "give this user the right to INFO, if the server has it", "%s",
                     relock_strerror(told));
}

/* Of all servers of a cluster, as a probe of the program would. */
static void check_ready(struct doctor *doctor, struct relock_client *client)
{
    int r = relock_client_ready(client, NULL);

    if (r != RELOCK_OK)
        findings_add(&doctor->findings, FINDING_BAD, "ready",
                     r == RELOCK_E_AUTH ? "give this user the right to PING" : NULL,
                     "relock_client_ready() would fail: %s", relock_strerror(r));
}

/* Of the kinds, those that need clients with these flags. */
static void choose(const struct doctor *doctor, uint64_t flags, const char *kinds[MOST_KINDS])
{
    size_t n = 0;

    for (size_t i = 0; doctor->kinds[i]; i++)
        if ((strcmp(doctor->kinds[i], "announced-plain") == 0) == (flags == RELOCK_ANNOUNCE_PLAIN))
            kinds[n++] = doctor->kinds[i];
    kinds[n] = NULL;
}

static void ignore(const struct relock_record *record, void *arg)
{
    (void)record;
    (void)arg;
}

/* A user with the rights to unleased semaphores may not, so a failure is no finding. */
static void forget_numbers(struct doctor *doctor, struct trials_numbers *numbers)
{
    const struct relock_options options = {.connections = 1, .on_record = ignore};
    struct relock_client *client = NULL;

    if (numbers->n > 0)
        (void)session_try(&doctor->args, &options, &client);
    trials_forget(numbers, client);
    relock_client_free(client);
}

/* Returns why there are no clients. */
static int examine_with(struct doctor *doctor, uint64_t flags)
{
    struct trials_numbers numbers = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct trials trials = {
        .name = doctor->name, .findings = &doctor->findings, .numbers = &numbers};
    const char *kinds[MOST_KINDS];
    int r = make_client(doctor, flags, &trials.holder);

    choose(doctor, flags, kinds);
    if (r == RELOCK_OK)
        r = make_client(doctor, flags, &trials.waiter);
    if (r == RELOCK_OK)
        r = make_client(doctor, flags, &trials.other);
    if (r == RELOCK_OK && flags == 0)
        examine_server(doctor, trials.holder);
    if (r == RELOCK_OK && kinds[0] && kinds[0] == doctor->kinds[0])
        trials_of_lease(&trials, kinds[0]);
    if (r == RELOCK_OK) {
        trials_of_kinds(&trials, kinds);
        check_ready(doctor, trials.holder);
    }
    relock_client_free(trials.other);
    relock_client_free(trials.waiter);
    relock_client_free(trials.holder); /* after this, the log is complete */
    forget_numbers(doctor, &numbers);
    return r;
}

static void examine(struct doctor *doctor)
{
    const char *announced[MOST_KINDS];
    int r = examine_with(doctor, 0);

    choose(doctor, RELOCK_ANNOUNCE_PLAIN, announced);
    if (r == RELOCK_OK && announced[0])
        r = examine_with(doctor, RELOCK_ANNOUNCE_PLAIN);
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
    "eviction, persistence, replicas and their clocks, connections and clock, and\n"
    "whether a lease ends. Then acquires, awaits and releases a lock of each kind,\n"
    "which shows whether this user has the rights. Says what is fine (ok), good to\n"
    "know (note) or wrong (bad), and what to do.\n"
    "      --kind KIND           try this kind only, of those in `relock acl --help`;\n"
    "                            may stand several times [reentrant, fair, fenced,\n"
    "                            read-write, spin, plain]\n"
    "      --name NAME           names the locks NAME:fair and so on [relock:doctor];\n"
    "                            the token counters of fenced ones stay\n"
    "      --json                for programs\n"
    "  -u, --url URL             [RELOCK_URL, or redis://127.0.0.1:6379]\n"
    "      --password-file FILE  or set RELOCK_PASSWORD; keep it off the command line\n"
    "  -v, --verbose             no effect: the log is part of the findings\n"
    "Exit status: 0 if nothing is bad, 1 if something is, 125 for wrong usage.\n",
    run_doctor,
};
