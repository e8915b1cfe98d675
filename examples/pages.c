/*
 * pages - the examples of the manual pages, and a program that runs each of them once
 *
 * tools/man.py puts the body of a function on the pages that the comment above it names. The
 * arguments are made by main(); `orders` is a lock of that name.
 *
 *     cc pages.c $(pkg-config --cflags --libs relock) -pthread -o pages
 *     ./pages [URL [PASSWORD]]                              default: redis://127.0.0.1:6379
 */
#include <poll.h>
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>

static int n_sold; /* how often the work was done */

static void sell(void)
{
    n_sold++;
}

/* ---- clients and locks ---- */

/* relock_client_new, relock_client_free, relock_lock_new, relock_lock_free */
static int make_and_free(const char *url, const char *password)
{
    const struct relock_options options = {.url = url, .password = password};
    struct relock_client *client;
    struct relock_lock *lock = NULL;
    int r;

    r = relock_client_new(&options, &client);
    if (r != RELOCK_OK)
        return r;
    r = relock_lock_new(client, "orders", &lock);
    if (r == RELOCK_OK)
        r = relock_lock(lock);
    if (r == RELOCK_OK) {
        sell();
        r = relock_unlock(lock);
    }
    relock_lock_free(lock);
    relock_client_free(client);
    return r;
}

/* relock_strerror, relock_lock_name, relock_client_id */
static int log_a_failure(struct relock_client *client, struct relock_lock *orders)
{
    int r = relock_trylock(orders);

    if (r != RELOCK_OK) {
        fprintf(stderr, "client %s, lock %s: %s\n", relock_client_id(client),
                relock_lock_name(orders), relock_strerror(r));
        return r;
    }
    sell();
    return relock_unlock(orders);
}

/* relock_client_set_password */
static int rotate_password(struct relock_client *client, const char *password)
{
    int r = relock_client_set_password(client, NULL, password);

    if (r != RELOCK_OK)
        fprintf(stderr, "the new password: %s\n", relock_strerror(r));
    return r;
}

/* relock_client_ready */
static int answer_the_probe(struct relock_client *client)
{
    int r = relock_client_ready(client, "probe:shop");

    printf("HTTP/1.1 %s\r\n\r\n", r == RELOCK_OK ? "200 OK" : "503 Service Unavailable");
    return r;
}

/* relock_client_stats */
static int count_losses(struct relock_client *client)
{
    struct relock_stats stats;
    int r = relock_client_stats(client, &stats, sizeof(stats));

    if (r == RELOCK_OK)
        printf("%llu holds now, %llu lost\n", (unsigned long long)stats.holds,
               (unsigned long long)stats.lost);
    return r;
}

/* relock_stats_print */
static int answer_prometheus(struct relock_client *client)
{
    static char text[64 * 1024];
    size_t len;
    int r = relock_stats_print(client, "program=\"shop\"", text, sizeof(text), &len);

    if (r == RELOCK_OK && len < sizeof(text))
        fwrite(text, 1, len, stdout);
    return r;
}

/* relock_client_shutdown */
static int drain(struct relock_client *client, struct relock_lock *orders)
{
    int r = relock_lock(orders);

    if (r != RELOCK_OK)
        return r;
    relock_client_shutdown(client); /* this owner goes on until its release */
    sell();
    return relock_unlock(orders);
}

/* ---- acquiring ---- */

/* relock_lock, relock_unlock */
static int wait_without_limit(struct relock_lock *orders)
{
    int r = relock_lock(orders);

    if (r != RELOCK_OK)
        return r;
    sell();
    return relock_unlock(orders); /* RELOCK_LOST: the lock was lost meanwhile */
}

/* relock_trylock */
static int skip_if_busy(struct relock_lock *orders)
{
    int r = relock_trylock(orders);

    if (r == RELOCK_BUSY)
        return RELOCK_OK; /* another process does it */
    if (r != RELOCK_OK)
        return r;
    sell();
    return relock_unlock(orders);
}

/* relock_timedlock */
static int wait_for_a_second(struct relock_lock *orders)
{
    int r = relock_timedlock(orders, 1000);

    if (r == RELOCK_TIMEOUT)
        fprintf(stderr, "busy, try again later\n");
    if (r != RELOCK_OK)
        return r;
    sell();
    return relock_unlock(orders);
}

/* relock_acquire, relock_release, relock_owner_new */
static int sell_as_another_owner(struct relock_lock *orders)
{
    const struct relock_how how = {.wait_ms = 1000, .owner = relock_owner_new()};
    struct relock_grant grant;
    int r = relock_acquire(orders, &how, &grant);

    if (r != RELOCK_OK)
        return r;
    printf("certain for %llu ms\n", (unsigned long long)grant.valid_ms);
    sell();
    return relock_release(orders, how.owner); /* by any thread */
}

/* relock_owner_self, relock_hold_count_of */
static int count_own_levels(struct relock_lock *orders)
{
    uint64_t self = relock_owner_self(); /* for other threads, which may ask as well */
    unsigned count;
    int r = relock_hold_count_of(orders, self, &count);

    if (r == RELOCK_OK)
        printf("this thread has %u levels\n", count);
    return r;
}

/* relock_cancel_new, relock_cancel_fire, relock_cancel_free */
static int end_a_wait(struct relock_lock *orders)
{
    struct relock_cancel *cancel;
    int r = relock_cancel_new(&cancel);

    if (r != RELOCK_OK)
        return r;
    relock_cancel_fire(cancel); /* usually by another thread, while this one waits */
    r = relock_acquire(orders, &(struct relock_how){.wait_ms = 1000, .cancel = cancel}, NULL);
    if (r == RELOCK_OK)
        r = relock_unlock(orders);
    relock_cancel_free(cancel);
    return r == RELOCK_CANCELLED ? RELOCK_OK : r;
}

/* ---- while a lock is held ---- */

/* relock_check, relock_extend */
static int need_a_minute(struct relock_lock *orders)
{
    struct relock_grant grant;
    int r = relock_acquire(orders, &(struct relock_how){.lease_ms = 10000}, NULL);

    if (r != RELOCK_OK)
        return r;
    r = relock_check(orders, 0, &grant);
    if (r == RELOCK_OK && grant.valid_ms < 60000)
        r = relock_extend(orders, 0, 60000);
    if (r == RELOCK_OK)
        sell();
    (void)relock_unlock(orders);
    return r;
}

/* relock_valid_ms, relock_is_mine */
static int commit_while_certain(struct relock_lock *orders)
{
    int r = relock_lock(orders);

    if (r != RELOCK_OK)
        return r;
    if (relock_is_mine(orders) && relock_valid_ms(orders) > 1000)
        sell(); /* takes less than a second */
    return relock_unlock(orders);
}

/* ---- queries and operators ---- */

/* relock_who_holds, relock_is_locked, relock_ttl_ms, relock_hold_count */
static int describe(struct relock_lock *orders)
{
    struct relock_holder holder;
    int64_t ttl_ms;
    unsigned mine;
    bool locked;
    int r = relock_is_locked(orders, &locked);

    if (r == RELOCK_OK)
        r = relock_ttl_ms(orders, &ttl_ms);
    if (r == RELOCK_OK)
        r = relock_hold_count(orders, &mine);
    if (r == RELOCK_OK)
        r = relock_who_holds(orders, &holder);
    if (r == RELOCK_OK && locked)
        printf("%s holds it for %lld ms; levels of this thread: %u\n", holder.id, (long long)ttl_ms,
               mine);
    return r;
}

/* relock_force_unlock */
static int end_a_stuck_holder(struct relock_lock *orders)
{
    int r = relock_force_unlock(orders); /* its process may go on: stop that first */

    return r == RELOCK_OK ? wait_for_a_second(orders) : r;
}

/* relock_force_unlock_held */
static int break_open(struct relock_lock *orders)
{
    bool held;
    int r = relock_force_unlock_held(orders, &held);

    if (r == RELOCK_OK)
        printf("%s\n", held ? "a holder has lost it" : "it was free");
    return r;
}

static bool print_lock(const struct relock_lock_info *info, void *arg)
{
    printf("%s: %s, %lld ms left\n", info->name, info->holder.id, (long long)info->holder.ttl_ms);
    *(unsigned *)arg += 1;
    return true; /* go on */
}

/* relock_locks */
static int list_locks(struct relock_client *client)
{
    unsigned n = 0;
    int r = relock_locks(client, "*", print_lock, &n); /* a callback that prints one */

    printf("%u locks\n", n);
    return r;
}

static bool print_waiter(const struct relock_waiter_info *info, void *arg)
{
    (void)arg;
    printf("%u. %s\n", info->place, info->client_name);
    return true;
}

/* relock_waiters */
static int list_waiters(struct relock_client *client)
{
    return relock_waiters(client, "orders", print_waiter, NULL); /* a callback that prints one */
}

static bool print_wait(const struct relock_nested_wait *wait, void *arg)
{
    (void)arg;
    printf("%s waits for %s and holds another lock\n", wait->client_name, wait->name);
    return true;
}

/* relock_nested_waits */
static int list_nested_waits(struct relock_client *client)
{
    return relock_nested_waits(client, print_wait, NULL); /* a callback that prints one */
}

static bool print_server(const struct relock_server_info *info, void *arg)
{
    (void)arg;
    printf("%s answers in %llu us\n", info->address, (unsigned long long)info->round_trip_us);
    return true;
}

/* relock_servers */
static int list_servers(struct relock_client *client)
{
    return relock_servers(client, print_server, NULL); /* a callback that prints one */
}

/* ---- event-driven programs ---- */

struct job {
    struct relock_lock *lock;
    struct relock_events *events;
    bool has_ended;
    int result;
};

static void released(int result, void *arg)
{
    struct job *job = arg;

    job->result = result;
    job->has_ended = true;
}

/* relock_release_async */
static void acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct job *job = arg;

    if (result == RELOCK_OK) {
        sell();
        result = relock_release_async(job->lock, grant->owner, job->events, released, job);
    }
    if (result != RELOCK_OK)
        released(result, job); /* no callback will come */
}

/* relock_events_new, relock_events_free, relock_events_fd, relock_events_dispatch,
 * relock_acquire_async */
static int run_a_loop(struct relock_client *client, struct relock_lock *orders)
{
    struct job job = {.lock = orders};
    struct pollfd fd = {.events = POLLIN};
    int r = relock_events_new(client, &job.events);

    if (r != RELOCK_OK)
        return r;
    fd.fd = relock_events_fd(job.events);
    /* acquired() is called by relock_events_dispatch() */
    r = relock_acquire_async(orders, &(struct relock_how){.wait_ms = 1000}, job.events, acquired,
                             &job);
    while (r == RELOCK_OK && !job.has_ended) {
        (void)poll(&fd, 1, -1);
        if (relock_events_dispatch(job.events) < 0)
            break;
    }
    relock_events_free(job.events);
    return r == RELOCK_OK ? job.result : r;
}

/* ---- other kinds ---- */

/* relock_fairlock_new, relock_fairlock_set_patience */
static int in_order_of_arrival(struct relock_client *client)
{
    struct relock_lock *lock;
    int r = relock_fairlock_new(client, "tickets", &lock);

    if (r != RELOCK_OK)
        return r;
    r = relock_fairlock_set_patience(lock, 5000);
    if (r == RELOCK_OK)
        r = wait_without_limit(lock);
    relock_lock_free(lock);
    return r;
}

/* relock_rdlock_new, relock_wrlock_new */
static int read_then_write(struct relock_client *client)
{
    struct relock_lock *readers, *writers = NULL;
    int r = relock_rdlock_new(client, "prices", &readers);

    if (r != RELOCK_OK)
        return r;
    r = relock_wrlock_new(client, "prices", &writers);
    if (r == RELOCK_OK)
        r = relock_lock(readers); /* others may read as well */
    if (r == RELOCK_OK)
        r = relock_unlock(readers); /* before it writes: a reader cannot become a writer */
    if (r == RELOCK_OK)
        r = relock_lock(writers); /* alone */
    if (r == RELOCK_OK)
        r = relock_unlock(writers);
    relock_lock_free(writers);
    relock_lock_free(readers);
    return r;
}

/* relock_fencedlock_new */
static int write_with_a_token(struct relock_client *client)
{
    struct relock_grant grant;
    struct relock_lock *lock;
    int r = relock_fencedlock_new(client, "ledger", &lock);

    if (r != RELOCK_OK)
        return r;
    r = relock_acquire(lock, &(struct relock_how){.wait_ms = 1000}, &grant);
    if (r == RELOCK_OK) {
        printf("UPDATE ledger ... WHERE token <= %llu\n", (unsigned long long)grant.fencing_token);
        r = relock_unlock(lock);
    }
    relock_lock_free(lock);
    return r;
}

/* relock_spinlock_new, relock_spinlock_set_pauses */
static int poll_for_it(struct relock_client *client)
{
    struct relock_lock *lock;
    int r = relock_spinlock_new(client, "counter", &lock);

    if (r != RELOCK_OK)
        return r;
    r = relock_spinlock_set_pauses(lock, 2, 50);
    if (r == RELOCK_OK)
        r = wait_without_limit(lock);
    relock_lock_free(lock);
    return r;
}

/* relock_plainlock_new */
static int share_with_redis_py(struct relock_client *client)
{
    struct relock_lock *lock;
    int r = relock_plainlock_new(client, "import", &lock); /* there: Lock(redis, "import", ...) */

    if (r != RELOCK_OK)
        return r;
    r = wait_without_limit(lock);
    relock_lock_free(lock);
    return r;
}

/* relock_plainlock_like */
static int import_beside_python(struct relock_client *client)
{
    struct relock_lock *lock;
    int r = relock_plainlock_like(client, "python-redis-lock", "import", &lock);

    if (r != RELOCK_OK)
        return r;
    r = relock_timedlock(lock, 5000); /* there: redis_lock.Lock(redis, "import", expire=30) */
    if (r == RELOCK_OK)
        r = relock_unlock(lock); /* wakes their waiters, which sleep for up to 30 s otherwise */
    relock_lock_free(lock);
    return r;
}

/* relock_semaphore_new, relock_semaphore_init, relock_semaphore_read */
static int three_at_a_time(struct relock_client *client)
{
    struct relock_permits permits;
    struct relock_lock *encoders;
    int r = relock_semaphore_new(client, "encoders", &encoders);

    if (r != RELOCK_OK)
        return r;
    r = relock_semaphore_init(encoders, 3, NULL); /* the first program sets it */
    if (r == RELOCK_OK)
        r = wait_without_limit(encoders); /* under one permit */
    if (r == RELOCK_OK)
        r = relock_semaphore_read(encoders, &permits);
    if (r == RELOCK_OK)
        printf("%lld permits are free\n", (long long)permits.n_free);
    relock_lock_free(encoders);
    return r;
}

/* relock_semaphore_set, relock_semaphore_add */
static int one_more_machine(struct relock_client *client)
{
    struct relock_lock *encoders;
    int r = relock_semaphore_new(client, "encoders", &encoders);

    if (r != RELOCK_OK)
        return r;
    r = relock_semaphore_add(encoders, 1);
    if (r == RELOCK_E_NO_PERMITS) /* it was deleted */
        r = relock_semaphore_set(encoders, 4);
    relock_lock_free(encoders);
    return r;
}

/* relock_force_unlock_permit */
static int take_permits_back(struct relock_client *client, const char *id)
{
    struct relock_lock *encoders;
    bool held = false;
    int r = relock_semaphore_new(client, "encoders", &encoders);

    if (r != RELOCK_OK)
        return r;
    r = relock_force_unlock_permit(encoders, id, &held); /* `relock status` shows the ids */
    if (r == RELOCK_OK && !held)
        printf("they had come back\n");
    relock_lock_free(encoders);
    return r;
}

/* relock_multilock_new */
static int both_accounts(struct relock_lock *from, struct relock_lock *to)
{
    struct relock_lock *both;
    int r = relock_multilock_new((struct relock_lock *[]){from, to}, 2, &both);

    if (r != RELOCK_OK)
        return r;
    r = wait_without_limit(both); /* all or none, in one order */
    relock_lock_free(both);
    return r;
}

/* relock_redlock_new */
static int most_of_three_servers(struct relock_lock *locks[3])
{
    struct relock_lock *lock;
    int r = relock_redlock_new(locks, 3, &lock); /* each of a client of its own */

    if (r != RELOCK_OK)
        return r;
    r = wait_without_limit(lock);
    relock_lock_free(lock);
    return r;
}

/* ---- latches and unleased semaphores ---- */

/* relock_latch_new, relock_latch_free, relock_latch_try_set, relock_latch_count_down,
 * relock_latch_wait */
static int start_together(struct relock_client *client)
{
    struct relock_latch *latch;
    int r = relock_latch_new(client, "start:run-42", &latch);

    if (r != RELOCK_OK)
        return r;
    r = relock_latch_try_set(latch, 1, NULL); /* once, for one worker */
    if (r == RELOCK_OK)
        r = relock_latch_count_down(latch); /* each worker, when it is ready */
    if (r == RELOCK_OK)
        r = relock_latch_wait(latch, 10000, NULL);
    relock_latch_free(latch);
    return r;
}

/* relock_latch_count, relock_latch_delete */
static int give_up_a_start(struct relock_client *client)
{
    struct relock_latch *latch;
    uint64_t count = 0;
    bool deleted = false;
    int r = relock_latch_new(client, "start:run-41", &latch);

    if (r != RELOCK_OK)
        return r;
    r = relock_latch_count(latch, &count);
    if (r == RELOCK_OK && count > 0)
        r = relock_latch_delete(latch, &deleted);
    if (deleted)
        printf("%llu workers were missing\n", (unsigned long long)count);
    relock_latch_free(latch);
    return r;
}

/* relock_unleased_new, relock_unleased_free, relock_unleased_try_set, relock_unleased_acquire,
 * relock_unleased_release */
static int share_permits_with_java(struct relock_client *client)
{
    struct relock_unleased *semaphore;
    int r = relock_unleased_new(client, "scanners", &semaphore);

    if (r != RELOCK_OK)
        return r;
    r = relock_unleased_try_set(semaphore, 3, NULL);
    if (r == RELOCK_OK)
        r = relock_unleased_acquire(semaphore, 1, 5000, NULL);
    if (r == RELOCK_OK) {
        printf("scanning\n"); /* if the process dies here, the permit is lost */
        r = relock_unleased_release(semaphore, 1);
    }
    relock_unleased_free(semaphore);
    return r;
}

/* relock_unleased_available, relock_unleased_add, relock_unleased_drain */
static int replace_lost_permits(struct relock_client *client)
{
    struct relock_unleased *semaphore;
    int64_t available, drained;
    int r = relock_unleased_new(client, "scanners", &semaphore);

    if (r != RELOCK_OK)
        return r;
    r = relock_unleased_available(semaphore, &available);
    if (r == RELOCK_OK && available < 3) /* while nobody scans */
        r = relock_unleased_add(semaphore, (int)(3 - available));
    if (r == RELOCK_OK)
        r = relock_unleased_drain(semaphore, &drained); /* nobody is to begin any more */
    if (r == RELOCK_OK)
        printf("%lld permits were taken\n", (long long)drained);
    relock_unleased_free(semaphore);
    return r;
}

/* ---- running them ---- */

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "pages: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static void run_with_two_locks(struct relock_client *client)
{
    struct relock_lock *from, *to;

    must(relock_lock_new(client, "account:1", &from), "make a lock");
    must(relock_lock_new(client, "account:2", &to), "make a lock");
    must(both_accounts(from, to), "both_accounts");
    relock_lock_free(from);
    relock_lock_free(to);
}

/* Three clients of one server stand for three servers. */
static void run_with_three_servers(const struct relock_options *options)
{
    static const char *const names[] = {"red:1", "red:2", "red:3"};
    struct relock_client *clients[3];
    struct relock_lock *locks[3];

    for (int i = 0; i < 3; i++) {
        must(relock_client_new(options, &clients[i]), "connect");
        must(relock_lock_new(clients[i], names[i], &locks[i]), "make a lock");
    }
    must(most_of_three_servers(locks), "most_of_three_servers");
    for (int i = 0; i < 3; i++) {
        relock_lock_free(locks[i]);
        relock_client_free(clients[i]);
    }
}

static void run(struct relock_client *client, struct relock_lock *orders)
{
    must(log_a_failure(client, orders), "log_a_failure");
    must(answer_the_probe(client), "answer_the_probe");
    must(count_losses(client), "count_losses");
    must(answer_prometheus(client), "answer_prometheus");
    must(wait_without_limit(orders), "wait_without_limit");
    must(skip_if_busy(orders), "skip_if_busy");
    must(wait_for_a_second(orders), "wait_for_a_second");
    must(sell_as_another_owner(orders), "sell_as_another_owner");
    must(count_own_levels(orders), "count_own_levels");
    must(end_a_wait(orders), "end_a_wait");
    must(need_a_minute(orders), "need_a_minute");
    must(commit_while_certain(orders), "commit_while_certain");
    must(describe(orders), "describe");
    must(end_a_stuck_holder(orders), "end_a_stuck_holder");
    must(break_open(orders), "break_open");
    must(list_locks(client), "list_locks");
    must(list_waiters(client), "list_waiters");
    must(list_nested_waits(client), "list_nested_waits");
    must(list_servers(client), "list_servers");
    must(run_a_loop(client, orders), "run_a_loop");
    must(in_order_of_arrival(client), "in_order_of_arrival");
    must(read_then_write(client), "read_then_write");
    must(write_with_a_token(client), "write_with_a_token");
    must(poll_for_it(client), "poll_for_it");
    must(share_with_redis_py(client), "share_with_redis_py");
    must(three_at_a_time(client), "three_at_a_time");
    must(one_more_machine(client), "one_more_machine");
    must(take_permits_back(client, "30313233343536373839616263646566"), "take_permits_back");
    must(import_beside_python(client), "import_beside_python");
    must(start_together(client), "start_together");
    must(give_up_a_start(client), "give_up_a_start");
    must(share_permits_with_java(client), "share_permits_with_java");
    must(replace_lost_permits(client), "replace_lost_permits");
}

int main(int argc, char **argv)
{
    const char *password = argc > 2 ? argv[2] : NULL; /* that of the default user */
    const struct relock_options options = {.url = argc > 1 ? argv[1] : NULL, .password = password};
    struct relock_client *client;
    struct relock_lock *orders;

    must(make_and_free(options.url, password), "make_and_free");
    must(relock_client_new(&options, &client), "connect");
    must(relock_lock_new(client, "orders", &orders), "make a lock");
    run_with_two_locks(client);
    run_with_three_servers(&options);
    run(client, orders);
    if (password)
        must(rotate_password(client, password), "rotate_password");
    must(drain(client, orders), "drain");
    relock_lock_free(orders);
    relock_client_free(client);
    if (n_sold != 17) {
        fprintf(stderr, "pages: sold %d times\n", n_sold);
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
