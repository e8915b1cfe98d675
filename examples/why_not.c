/*
 * why_not - the locks of the past on Redis, each in the moment in which it fails, and relock there
 *
 * The schemes are those that the documentation of Redis warns of: SETNX alone; SETNX and then
 * EXPIRE; SETNX with a timestamp, and GETSET; a release by DEL that does not look whose lock it
 * frees. They are run command by command on plain connections, so that what can happen once in a
 * while happens each time. Then the same thing happens to a lock of relock.
 *
 *     cc why_not.c why_not_people.c $(pkg-config --cflags --libs relock hiredis) -pthread
 *     ./a.out [URL]                   redis://host:port or unix://path; the server is written to
 */
#include "why_not_people.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000 /* for what takes a lease at most */
#define MEANWHILE_MS 50

static bool outcome(bool came, const char *what)
{
    printf("    %s %s\n", came ? "=>" : "=> expected, but did not come:", what);
    return came;
}

/* ---- SETNX alone ---- */

static void take_and_die(void)
{
    struct user ann = join("ann", LEASE_MS);

    report(&ann, "relock_lock", relock_lock(ann.lock));
    die(ann.name);
}

static bool is_taken_after_a_lease(void)
{
    struct user bob = join("bob", PATIENCE_MS);
    bool is_taken = report(&bob, "relock_timedlock", relock_timedlock(bob.lock, PATIENCE_MS)) == 0;

    is_taken &= report(&bob, "relock_unlock", relock_unlock(bob.lock)) == RELOCK_OK;
    leave(&bob);
    return outcome(is_taken, "the lease of the dead ended, and the next had the lock");
}

static void setnx_and_die(void)
{
    struct person ann = come("ann");

    ask(&ann, "SETNX " LOCK " ann");
    die(ann.name);
}

static bool stays_for_ever(void)
{
    struct person bob = come("bob");
    bool stays = ask(&bob, "SETNX " LOCK " bob") == 0 && ask(&bob, "PTTL " LOCK) == -1;

    go(&bob);
    return outcome(stays, "nobody holds the lock, and nobody will ever get it");
}

static bool setnx_alone(void)
{
    bool as_told;

    printf("\nSETNX alone: who is told 1 has the lock, and deletes it in the end\n");
    await_death(begin(setnx_and_die));
    as_told = stays_for_ever();
    clear();

    printf("  relock: the lock has a lease, which its holder renews as long as it lives\n");
    await_death(begin(take_and_die));
    return is_taken_after_a_lease() && as_told;
}

/* ---- SETNX, then EXPIRE ---- */

static void setnx_then_expire(void)
{
    struct person ann = come("ann");

    if (ask(&ann, "SETNX " LOCK " ann") == 1) {
        die(ann.name); /* here, of all places */
        ask(&ann, "PEXPIRE " LOCK " %d", LEASE_MS);
    }
}

static void take_and_stay(void)
{
    struct user ann = join("ann", LEASE_MS);

    report(&ann, "relock_lock", relock_lock(ann.lock));
    pause();
}

static bool lease_in_a_second_command(void)
{
    bool as_told;
    pid_t pid;

    printf("\nSETNX, then EXPIRE: the same with a lease, which is set by a second command\n");
    await_death(begin(setnx_then_expire));
    as_told = stays_for_ever();
    clear();

    printf("  relock: lock and lease come in one script, so there is no moment between them\n");
    pid = begin(take_and_stay);
    as_told &= outcome(first_pttl() > 0, "the lock has a lease as soon as there is a lock");
    kill(pid, SIGKILL);
    await_death(pid);
    return is_taken_after_a_lease() && as_told;
}

/* ---- SETNX with a timestamp ---- */

static long long clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Both have seen that the time of the lock is over before either does something about it. */
static bool deleted_when_its_time_is_over(struct person *bob, struct person *cid)
{
    long long now = clock_ms();
    bool both_saw_it, has_bob, has_cid;

    both_saw_it = ask(bob, "GET " LOCK) < now && ask(cid, "GET " LOCK) < now;
    ask(bob, "DEL " LOCK);
    has_bob = ask(bob, "SETNX " LOCK " %lld", now + LEASE_MS) == 1;
    ask(cid, "DEL " LOCK);
    has_cid = ask(cid, "SETNX " LOCK " %lld", now + LEASE_MS) == 1;
    return outcome(both_saw_it && has_bob && has_cid, "bob and cid both have the lock");
}

/* Who gets a timestamp back that is past was the first. But past by which clock? */
static bool exchanged_when_its_time_is_over(struct person *bob, struct person *cid)
{
    long long now = clock_ms(), now_of_cid = now + 2 * LEASE_MS;
    bool both_saw_it, has_bob, has_cid;

    printf("    and by GETSET, while cid's clock is %d ms fast\n", 2 * LEASE_MS);
    both_saw_it = ask(bob, "GET " LOCK) < now && ask(cid, "GET " LOCK) < now_of_cid;
    has_bob = ask(bob, "GETSET " LOCK " %lld", now + LEASE_MS) < now;
    has_cid = ask(cid, "GETSET " LOCK " %lld", now_of_cid + LEASE_MS) < now_of_cid;
    return outcome(both_saw_it && has_bob && has_cid, "bob and cid both have the lock");
}

static void leave_a_timestamp(struct person *person)
{
    clear();
    ask(person, "SETNX " LOCK " %lld", clock_ms() - 1);
}

struct racer {
    struct user user;
    atomic_int *n_inside, *n_most;
    bool had_it;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    int r = relock_timedlock(racer->user.lock, PATIENCE_MS), n;

    n = atomic_fetch_add(racer->n_inside, 1) + 1;
    if (n > atomic_load(racer->n_most))
        atomic_store(racer->n_most, n);
    report(&racer->user, "relock_timedlock", r);
    usleep(MEANWHILE_MS * 1000); /* the time of the other, were there no lock */
    atomic_fetch_sub(racer->n_inside, 1);
    racer->had_it = r == RELOCK_OK && relock_unlock(racer->user.lock) == RELOCK_OK;
    return NULL;
}

static bool one_has_it_after_the_other(void)
{
    atomic_int n_inside = 0, n_most = 0;
    struct racer racers[] = {{join("bob", PATIENCE_MS), &n_inside, &n_most, false},
                             {join("cid", PATIENCE_MS), &n_inside, &n_most, false}};
    pthread_t threads[2];

    for (int i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, race, &racers[i]) == 0, "thread", "none");
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        leave(&racers[i].user);
    }
    return outcome(racers[0].had_it && racers[1].had_it && n_most == 1,
                   "one has it after the other");
}

static bool timestamps(void)
{
    struct person ann = come("ann"), bob = come("bob"), cid = come("cid");
    bool as_told;

    printf("\nSETNX with a timestamp: who finds it past takes the lock over\n");
    leave_a_timestamp(&ann);
    as_told = deleted_when_its_time_is_over(&bob, &cid);
    leave_a_timestamp(&ann);
    as_told &= exchanged_when_its_time_is_over(&bob, &cid);
    clear();
    go(&ann);
    go(&bob);
    go(&cid);

    printf("  relock: the clock is that of Redis, which takes the lock away itself\n");
    await_death(begin(take_and_die));
    return one_has_it_after_the_other() && as_told;
}

/* ---- DEL without a look ---- */

static bool somebody_elses_is_deleted(void)
{
    struct person ann = come("ann"), bob = come("bob"), cid = come("cid");
    bool has_bob, has_cid;

    ask(&ann, "SET " LOCK " ann NX PX %d", LEASE_MS);
    wait_until_free(&ann); /* she works for too long */
    has_bob = ask(&bob, "SET " LOCK " bob NX PX %d", PATIENCE_MS) == 1;
    ask(&ann, "DEL " LOCK);
    has_cid = ask(&cid, "SET " LOCK " cid NX PX %d", PATIENCE_MS) == 1;
    go(&ann);
    go(&bob);
    go(&cid);
    return outcome(has_bob && has_cid, "bob and cid both have the lock");
}

static bool somebody_elses_stays(void)
{
    const struct relock_how how = {.lease_ms = LEASE_MS};
    struct user ann = join("ann", PATIENCE_MS), bob = join("bob", PATIENCE_MS),
                cid = join("cid", PATIENCE_MS);
    bool stays;

    report(&ann, "relock_acquire, for a lease", relock_acquire(ann.lock, &how, NULL));
    stays = report(&bob, "relock_timedlock", relock_timedlock(bob.lock, PATIENCE_MS)) == RELOCK_OK;
    stays &= report(&ann, "relock_unlock", relock_unlock(ann.lock)) == RELOCK_LOST;
    stays &= report(&cid, "relock_trylock", relock_trylock(cid.lock)) == RELOCK_BUSY;
    stays &= report(&bob, "relock_unlock", relock_unlock(bob.lock)) == RELOCK_OK;
    leave(&ann);
    leave(&bob);
    leave(&cid);
    return outcome(stays, "bob kept his lock, and ann was told that hers had been lost");
}

static bool delete_without_a_look(void)
{
    bool as_told;

    printf("\nDEL without a look: SET with NX and PX, which is right, and given up by DEL\n");
    as_told = somebody_elses_is_deleted();
    clear();

    printf("  relock: the release compares and deletes in one script\n");
    return somebody_elses_stays() && as_told;
}

int main(int argc, char **argv)
{
    bool as_told;

    if (argc > 1)
        url = argv[1];
    setlinebuf(stdout); /* so that nothing is printed twice by a child, or never */
    signal(SIGPIPE, SIG_IGN);

    clear();
    as_told = setnx_alone();
    as_told &= lease_in_a_second_command();
    as_told &= timestamps();
    as_told &= delete_without_a_look();
    clear();
    return as_told ? EXIT_SUCCESS : EXIT_FAILURE;
}
