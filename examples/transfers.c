/*
 * transfers - processes and threads move money between accounts in Redis, under nested locks
 *
 * After some seconds the parent kills a process that holds three locks and is in the middle of a
 * transfer. When its leases have expired, the others undo that transfer and continue. At the
 * end not one cent may be missing. With --no-lock the processes use no locks, and the sum must be
 * wrong. transfers_bank.c has the transfers and their locks; this file has the processes and the
 * output.
 *
 *     cc transfers.c transfers_bank.c $(pkg-config --cflags --libs relock hiredis) -pthread
 *     ./a.out [--no-lock] [URL]         redis://host:port or unix://path; writes to the server
 */
#include "transfers_bank.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_THREADS 4 /* in each process */
#define LEASE_MS 2000
#define SECOND_US 1000000
#define RUN_S 9
#define RUN_NO_LOCK_S 3
#define KILL_AFTER_S 3
#define TIME_LIMIT_S 60
#define VICTIM 1

struct demo {
    const char *url;
    bool has_locks;
    struct board *board;
    bool has_reported[N_LOCKS]; /* that another process acquired the victim's lock */
    bool has_reported_undo;
};

static volatile pid_t pids[N_PROCESSES]; /* 0: the process has ended */

/* ---- a process ---------------------------------------------------------------------------- */

static void *run_teller(void *arg)
{
    struct teller *teller = arg;
    int from, to, r;

    while (!teller->board->stop) {
        from = rand_r(&teller->seed) % N_ACCOUNTS;
        to = (from + 1 + rand_r(&teller->seed) % (N_ACCOUNTS - 1)) % N_ACCOUNTS;
        r = bank_transfer(teller, from, to, 1 + rand_r(&teller->seed) % 5000);
        if (r != RELOCK_OK)
            fprintf(stderr, "transfers: %d to %d: %s\n", from, to, relock_strerror(r));
    }
    return NULL;
}

static void run_tellers(const struct demo *demo, int process, struct relock_lock **locks)
{
    struct teller tellers[N_THREADS];
    pthread_t threads[N_THREADS];

    for (int i = 0; i < N_THREADS; i++) {
        tellers[i] = (struct teller){
            .board = demo->board,
            .process = process,
            .redis = bank_connect(demo->url),
            .locks = locks,
            .seed = (unsigned)(process * N_THREADS + i),
        };
        if (pthread_create(&threads[i], NULL, run_teller, &tellers[i]) != 0)
            die("no thread");
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        redisFree(tellers[i].redis);
    }
}

/* Runs in the child, and makes its client there: a child cannot use a client of its parent. */
static void run_process(const struct demo *demo, int process)
{
    const struct relock_options options = {
        .url = demo->url,
        .watchdog_timeout_ms = LEASE_MS,
        .client_name = "transfers",
    };
    struct relock_client *client = NULL;
    struct relock_lock *locks[N_LOCKS] = {NULL};
    int r;

    if (!demo->has_locks) {
        run_tellers(demo, process, NULL);
        return;
    }
    r = relock_client_new(&options, &client);
    for (int i = 0; i < N_LOCKS && r == RELOCK_OK; i++)
        r = relock_lock_new(client, lock_names[i], &locks[i]);
    if (r != RELOCK_OK)
        die("%s: %s", demo->url, relock_strerror(r));

    run_tellers(demo, process, locks);

    for (int i = 0; i < N_LOCKS; i++)
        relock_lock_free(locks[i]);
    relock_client_free(client);
}

static void start_process(const struct demo *demo, int process)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        die("fork failed");
    if (pid > 0) {
        pids[process] = pid;
        return;
    }

    /* The child must end with its parent, which may have ended already. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGALRM, SIG_DFL);

    run_process(demo, process);
    exit(EXIT_SUCCESS);
}

/* ---- the parent --------------------------------------------------------------------------- */

static void on_signal(int signo)
{
    static const char text[] = "transfers: stopped by a signal or by the time limit\n";
    ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);

    for (int i = 0; i < N_PROCESSES; i++) {
        if (pids[i] != 0 && kill(pids[i], SIGKILL) == 0)
            waitpid(pids[i], NULL, 0);
    }
    _exit(n < 0 ? EXIT_FAILURE : 128 + signo);
}

static void kill_victim(struct board *board)
{
    const struct record *half = &board->half;

    board->killed_us = now_us();
    kill(pids[VICTIM], SIGKILL);
    waitpid(pids[VICTIM], NULL, 0);
    pids[VICTIM] = 0;
    board->victim = NOBODY;
    printf(
        "      process %d was killed holding %s, %s and the ledger; %.2f is on neither account\n",
        VICTIM, lock_names[half->from], lock_names[half->to], (double)half->cents / 100);
}

static bool was_held_by_victim(const struct board *board, int lock)
{
    return lock == board->half.from || lock == board->half.to || lock == LEDGER;
}

static void report_recovery(struct demo *demo)
{
    const struct board *board = demo->board;

    for (int i = 0; i < N_LOCKS; i++) {
        if (demo->has_reported[i] || board->acquired_us[i] == 0 || !was_held_by_victim(board, i))
            continue;
        demo->has_reported[i] = true;
        printf("      another process acquired %s %.2f s after the kill\n", lock_names[i],
               (double)(board->acquired_us[i] - board->killed_us) / SECOND_US);
    }
    if (board->undone_by != NOBODY && !demo->has_reported_undo) {
        demo->has_reported_undo = true;
        printf("      process %d undid the incomplete transfer\n", board->undone_by);
    }
}

static void watch_until(struct demo *demo, uint64_t until_us)
{
    struct board *board = demo->board;
    struct pollfd fd = {.fd = board->event_fd, .events = POLLIN};
    uint64_t now;
    eventfd_t n;

    while ((now = now_us()) < until_us) {
        if (poll(&fd, 1, (int)((until_us - now) / 1000) + 1) > 0)
            eventfd_read(board->event_fd, &n);
        if (board->stopped_us != 0 && board->killed_us == 0)
            kill_victim(board);
        report_recovery(demo);
    }
}

static void print_progress(const struct board *board, int second)
{
    unsigned long long n, sum = 0;

    printf("%3d s ", second);
    for (int i = 0; i < N_PROCESSES; i++) {
        n = board->n_transfers[i];
        sum += n;
        printf("%9llu%-5s", n, pids[i] == 0 ? " dead" : "");
    }
    printf("  total %llu\n", sum);
}

static void watch(struct demo *demo, int n_seconds)
{
    uint64_t start_us = now_us();

    for (int second = 1; second <= n_seconds; second++) {
        watch_until(demo, start_us + (uint64_t)second * SECOND_US);
        print_progress(demo->board, second);
        if (waitpid(-1, NULL, WNOHANG) > 0)
            die("a process ended too early");
        if (second == KILL_AFTER_S && demo->has_locks)
            demo->board->victim = VICTIM;
    }
}

static void stop_processes(struct board *board)
{
    int status;

    board->stop = true;
    for (int i = 0; i < N_PROCESSES; i++) {
        if (pids[i] == 0)
            continue;
        waitpid(pids[i], &status, 0);
        pids[i] = 0;
        if (status != 0)
            die("process %d failed", i);
    }
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void print_speed(struct board *board, double seconds)
{
    unsigned n = board->n_samples < N_SAMPLES ? board->n_samples : N_SAMPLES;
    unsigned long long n_transfers = 0;

    for (int i = 0; i < N_PROCESSES; i++)
        n_transfers += board->n_transfers[i];
    printf("%.0f transfers/s, %.0f lock+unlock pairs/s, including the pause after the kill\n",
           (double)n_transfers / seconds, (double)board->n_pairs / seconds);
    if (n == 0)
        return;
    qsort(board->samples_us, n, sizeof(*board->samples_us), by_value);
    printf("from a release to the acquire by another process: p50 %u us, p99 %u us (%u samples)\n",
           board->samples_us[n / 2], board->samples_us[n - 1 - n / 100], n);
}

static int judge_without_locks(long long missing)
{
    if (missing == 0) {
        printf("FAILED: without locks the sum should be wrong, but it is right: try again\n");
        return EXIT_FAILURE;
    }
    printf("without locks, %.2f %s\n", (double)llabs(missing) / 100,
           missing > 0 ? "is missing" : "is too much");
    return EXIT_SUCCESS;
}

static int judge(const struct demo *demo, long long missing)
{
    const struct board *board = demo->board;

    if (missing != 0) {
        printf("FAILED: %.2f %s, although all transfers used locks\n", (double)llabs(missing) / 100,
               missing > 0 ? "is missing" : "is too much");
        return EXIT_FAILURE;
    }
    if (board->killed_us == 0 || board->acquired_us[LEDGER] == 0 || board->undone_by == NOBODY) {
        printf("FAILED: no process %s\n",
               board->killed_us == 0 ? "could be killed" : "continued after the kill");
        return EXIT_FAILURE;
    }
    printf("not one cent is missing\n");
    return EXIT_SUCCESS;
}

static int run(struct demo *demo)
{
    const int n_seconds = demo->has_locks ? RUN_S : RUN_NO_LOCK_S;
    const struct teller parent = {.board = demo->board, .redis = bank_connect(demo->url)};
    long long missing;

    bank_open(&parent);
    printf("%d processes of %d threads move money between %d accounts; transfers per process:\n",
           N_PROCESSES, N_THREADS, N_ACCOUNTS);
    for (int i = 0; i < N_PROCESSES; i++)
        start_process(demo, i);
    watch(demo, n_seconds);
    stop_processes(demo->board);

    if (demo->has_locks) {
        bank_undo_half_transfer(&parent);
        print_speed(demo->board, n_seconds);
    }
    missing = N_ACCOUNTS * OPENING_CENTS - bank_sum(&parent);
    redisFree(parent.redis);
    return demo->has_locks ? judge(demo, missing) : judge_without_locks(missing);
}

static struct board *make_board(void)
{
    struct board *board =
        mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED)
        die("no shared memory");
    board->event_fd = eventfd(0, EFD_NONBLOCK);
    if (board->event_fd < 0)
        die("no eventfd");
    board->victim = NOBODY;
    board->undone_by = NOBODY;
    return board;
}

int main(int argc, char **argv)
{
    struct demo demo = {.url = "redis://127.0.0.1:6379", .has_locks = true};
    struct sigaction action = {.sa_handler = on_signal};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-lock") == 0)
            demo.has_locks = false;
        else
            demo.url = argv[i];
    }

    setlinebuf(stdout); /* else a child may print its parent's buffer again */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    alarm(TIME_LIMIT_S);

    demo.board = make_board();
    return run(&demo);
}
