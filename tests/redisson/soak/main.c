/*
 * Three processes of the library and two of Redisson take locks of all kinds on one server, or in a
 * cluster of three, and their holds are checked afterwards: support/held.h.
 *
 *     relock-redisson-soak [SECONDS [cluster]]
 *
 * Each process of Redisson works for so long, from when its JVM has started. Those of the library
 * work until these are done.
 *
 * Ends with 77 when there is no server or no Redisson, with 1 when the history is impossible.
 */
#include "place.h"
#include "redisson.h"
#include "support/child.h"
#include "support/held.h"
#include "support/server.h"
#include "support/wait.h"
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define N_PROCESSES 5
#define N_OURS 3               /* the first ones */
#define START_MS (6 * SOON_MS) /* the longest start of a JVM */

struct process {
    struct worker worker;
    char path[128], who[8];
    const char *folder; /* folder of Redisson; NULL: the library */
    unsigned long seconds;
    struct child *child;
};

static int run_java(const struct process *process)
{
    const struct worker *worker = &process->worker;
    char path[2 * 4096], seconds[24], watchdog[24];

    snprintf(path, sizeof(path), "%.4000s/classes:%.4000s/dependency/*", process->folder,
             process->folder);
    snprintf(seconds, sizeof(seconds), "%lu", process->seconds);
    snprintf(watchdog, sizeof(watchdog), "%d", WORKER_WATCHDOG_MS);
#define KIND(kind, make, lock) #kind ":" lock,
    execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path,
           "Soak", worker->url, worker->path, worker->who, seconds, watchdog,
           WORKER_KIND_MAP(KIND)(char *) NULL);
#undef KIND
    return EXIT_FAILURE;
}

static int run(struct child *parent, void *arg)
{
    const struct process *process = arg;

    (void)parent;
    return process->folder ? run_java(process) : worker_run(&process->worker);
}

static void start(struct process *process, int number, const struct place *place,
                  const char *folder, const atomic_bool *is_over)
{
    bool is_ours = number < N_OURS;

    snprintf(process->who, sizeof(process->who), "%s%d.", is_ours ? "c" : "java", number);
    snprintf(process->path, sizeof(process->path), "%s/held.%d", place->dir, number);
    process->folder = is_ours ? NULL : folder;
    process->worker = (struct worker){
        .url = place->url, .path = process->path, .who = process->who, .is_over = is_over};
    process->child = child_start(run, process);
}

static const char *const kind_names[WORKER_N_KINDS] = {
#define KIND(kind, make, lock) #kind,
    WORKER_KIND_MAP(KIND)
#undef KIND
};

/* Each side must have held each kind, or the result proves little. */
static size_t check_counts(const struct helds *helds, const struct process *processes)
{
    size_t n_of_side[2][WORKER_N_KINDS] = {{0}};
    size_t n_wrong = 0;

    for (int i = 0; i < N_PROCESSES; i++) {
        printf("%-7s", processes[i].who);
        for (size_t k = 0; k < WORKER_N_KINDS; k++) {
            size_t n = held_count(helds, processes[i].who, kind_names[k]);

            printf("  %s %zu", kind_names[k], n);
            n_of_side[processes[i].folder != NULL][k] += n;
        }
        printf("\n");
    }
    for (size_t k = 0; k < WORKER_N_KINDS; k++)
        n_wrong += (n_of_side[0][k] == 0) + (n_of_side[1][k] == 0);
    return n_wrong;
}

/* Except the counter of the fenced lock, which stays. */
static bool has_one_key(void *place)
{
    return place_n_keys(place) == 1;
}

static size_t check_all(const struct process *processes, struct place *place)
{
    struct helds helds = {0};
    size_t n_wrong = 0;

    for (int i = 0; i < N_PROCESSES; i++)
        held_read(&helds, processes[i].path);
    n_wrong += held_check(&helds, NULL, 0, stdout).impossible;
    n_wrong += check_counts(&helds, processes);
    if (!wait_until(has_one_key, place, SOON_MS)) {
        printf("%lld keys are left\n", place_n_keys(place));
        n_wrong++;
    }
    held_free(&helds);
    return n_wrong;
}

/* The number of those that failed, of the processes from this one on. */
static size_t await(struct process *processes, int from, int to, uint64_t within_ms)
{
    size_t n_failed = 0;

    for (int i = from; i < to; i++) {
        int status = child_wait(processes[i].child, within_ms);

        if (status != 0)
            printf("%s ended with %d\n", processes[i].who, status);
        n_failed += status != 0;
    }
    return n_failed;
}

int main(int argc, char **argv)
{
    unsigned long seconds = argc > 1 ? strtoul(argv[1], NULL, 10) : 60;
    const char *folder = redisson_find("newest");
    bool in_cluster = argc > 2 && strcmp(argv[2], "cluster") == 0;
    struct process processes[N_PROCESSES] = {{.seconds = 0}};
    atomic_bool *is_over =
        mmap(NULL, sizeof(*is_over), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct place place;
    size_t n_wrong;

    if (!folder || !place_open(&place, in_cluster)) {
        printf("there is no server, or no Redisson: skipped\n");
        return SERVER_EXIT_SKIP;
    }
    if (is_over == MAP_FAILED)
        return EXIT_FAILURE;
    for (int i = 0; i < N_PROCESSES; i++) {
        processes[i].seconds = seconds;
        start(&processes[i], i, &place, folder, is_over);
    }
    n_wrong = await(processes, N_OURS, N_PROCESSES, seconds * 1000 + START_MS + SOON_MS);
    atomic_store(is_over, true);
    n_wrong += await(processes, 0, N_OURS, 3 * SOON_MS);
    n_wrong += check_all(processes, &place);
    place_close(&place);
    printf("%zu things are wrong\n", n_wrong);
    return n_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
