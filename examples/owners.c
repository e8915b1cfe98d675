/*
 * owners - an event loop in which tasks, not threads, own locks
 *
 * A task is not a thread: its steps may run on different workers, and several tasks may share a
 * worker. So each task is an owner of its own, made by relock_owner_new(), and the worker that runs
 * a step passes this owner. The loop never blocks on Redis. Its workers do, and notify it through
 * an eventfd.
 *
 *     cc owners.c $(pkg-config --cflags --libs relock) -pthread -o owners
 *     ./owners [URL]                                        default: redis://127.0.0.1:6379
 */
#include <poll.h>
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define N_TASKS 4
#define N_WORKERS 2
#define WORK_MS 200

/* A worker must not wait for long: the release that it waits for may be queued behind this step. */
#define PATIENCE_MS 50

enum step { ACQUIRE, NEST, WORK, RELEASE_INNER, RELEASE_OUTER, FINISHED };

struct task {
    uint64_t owner;
    int no;
    enum step step;
    int timer_fd; /* ends the step WORK */

    int result;       /* result of the last step; valid when `done` is set */
    int worker;       /* worker that ran the step; valid when `done` is set */
    atomic_bool done; /* the worker has finished the step */
};

struct loop {
    struct relock_lock *lock;
    int todo_fds[2]; /* a pipe of task numbers, from the loop to the workers */
    int done_fd;     /* an eventfd: some worker has finished a step */
    struct task tasks[N_TASKS];
    const struct task *inside; /* the task that holds the lock */
};

struct worker {
    struct loop *loop;
    int no;
    pthread_t thread;
};

static void expect(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "owners: failed: %s\n", what);
    exit(EXIT_FAILURE);
}

static void must(int r, const char *what)
{
    if (r != RELOCK_OK)
        fprintf(stderr, "owners: %s\n", relock_strerror(r));
    expect(r == RELOCK_OK, what);
}

/* ---- two tasks on one thread ---- */

static void share_a_thread(struct relock_lock *lock)
{
    const struct relock_how one = {.owner = relock_owner_new()};
    const struct relock_how two = {.owner = relock_owner_new()};

    must(relock_acquire(lock, &one, NULL), "one acquires the lock");
    expect(relock_acquire(lock, &two, NULL) == RELOCK_BUSY, "two is refused");
    must(relock_acquire(lock, &one, NULL), "one acquires it again");
    must(relock_release(lock, one.owner), "one releases a level");
    expect(relock_acquire(lock, &two, NULL) == RELOCK_BUSY, "two is still refused");
    must(relock_release(lock, one.owner), "one releases the lock");
    must(relock_acquire(lock, &two, NULL), "two acquires the lock");
    must(relock_release(lock, two.owner), "two releases the lock");
    printf("two owners on one thread exclude each other, and each can nest\n");
}

/* ---- workers ---- */

static int run_step(struct relock_lock *lock, const struct task *task)
{
    const struct relock_how how = {.wait_ms = PATIENCE_MS, .owner = task->owner};

    if (task->step == ACQUIRE || task->step == NEST)
        return relock_acquire(lock, &how, NULL);
    return relock_release(lock, task->owner);
}

static void *run_worker(void *arg)
{
    const struct worker *worker = arg;
    struct loop *loop = worker->loop;
    struct task *task;
    int no;

    while (read(loop->todo_fds[0], &no, sizeof(no)) == sizeof(no)) {
        task = &loop->tasks[no];
        task->result = run_step(loop->lock, task);
        task->worker = worker->no;
        atomic_store(&task->done, true);
        expect(eventfd_write(loop->done_fd, 1) == 0, "notify the loop");
    }
    return NULL;
}

/* ---- the loop ---- */

static void begin(struct loop *loop, struct task *task, enum step step)
{
    const struct itimerspec timer = {.it_value.tv_nsec = WORK_MS * 1000000L};

    task->step = step;
    if (step == WORK)
        expect(timerfd_settime(task->timer_fd, 0, &timer, NULL) == 0, "set a timer");
    else if (step != FINISHED)
        expect(write(loop->todo_fds[1], &task->no, sizeof(int)) == sizeof(int),
               "give the step to a worker");
}

static void on_step_done(struct loop *loop, struct task *task)
{
    static const char *const texts[] = {
        [ACQUIRE] = "acquired the lock",
        [NEST] = "acquired it again",
        [RELEASE_INNER] = "released a level",
        [RELEASE_OUTER] = "released the lock",
    };

    if (task->step == ACQUIRE && task->result == RELOCK_TIMEOUT) {
        begin(loop, task, ACQUIRE);
        return;
    }
    must(task->result, texts[task->step]);
    printf("task %d, worker %d: %s\n", task->no, task->worker, texts[task->step]);

    if (task->step == ACQUIRE) {
        expect(loop->inside == NULL, "only one task holds the lock");
        loop->inside = task;
    }
    /* Clear it here: the next task's grant may be reported before this task's last release. */
    if (task->step == RELEASE_INNER)
        loop->inside = NULL;
    begin(loop, task, task->step + 1);
}

static bool is_finished(const struct loop *loop)
{
    for (int i = 0; i < N_TASKS; i++) {
        if (loop->tasks[i].step != FINISHED)
            return false;
    }
    return true;
}

static void run_loop(struct loop *loop)
{
    struct pollfd fds[N_TASKS + 1];
    uint64_t n;

    for (int i = 0; i < N_TASKS; i++)
        fds[i] = (struct pollfd){.fd = loop->tasks[i].timer_fd, .events = POLLIN};
    fds[N_TASKS] = (struct pollfd){.fd = loop->done_fd, .events = POLLIN};

    while (!is_finished(loop)) {
        expect(poll(fds, N_TASKS + 1, 10000) > 0, "something happens within 10 s");
        for (int i = 0; i <= N_TASKS; i++) {
            if (fds[i].revents != 0)
                expect(read(fds[i].fd, &n, sizeof(n)) == sizeof(n), "read an event");
        }
        for (int i = 0; i < N_TASKS; i++) {
            struct task *task = &loop->tasks[i];

            if (fds[i].revents != 0)
                begin(loop, task, RELEASE_INNER);
            if (atomic_exchange(&task->done, false))
                on_step_done(loop, task);
        }
    }
}

static void run_tasks(struct relock_lock *lock)
{
    struct loop loop = {.lock = lock};
    struct worker workers[N_WORKERS];

    loop.done_fd = eventfd(0, 0);
    expect(loop.done_fd >= 0 && pipe(loop.todo_fds) == 0, "make the loop");
    for (int i = 0; i < N_WORKERS; i++) {
        workers[i] = (struct worker){.loop = &loop, .no = i};
        expect(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) == 0, "a worker");
    }
    for (int i = 0; i < N_TASKS; i++) {
        struct task *task = &loop.tasks[i];

        task->no = i;
        task->owner = relock_owner_new();
        task->timer_fd = timerfd_create(CLOCK_MONOTONIC, 0);
        expect(task->timer_fd >= 0, "a timer");
        begin(&loop, task, ACQUIRE);
    }

    run_loop(&loop);

    close(loop.todo_fds[1]); /* the workers read the end of the pipe and return */
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < N_TASKS; i++)
        close(loop.tasks[i].timer_fd);
    close(loop.todo_fds[0]);
    close(loop.done_fd);
}

int main(int argc, char **argv)
{
    const struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    struct relock_client *client;
    struct relock_lock *lock;

    must(relock_client_new(&options, &client), "connect");
    must(relock_lock_new(client, "index", &lock), "make the lock");

    share_a_thread(lock);
    run_tasks(lock);

    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}
