/*
 * why_not - how older lock schemes on Redis fail, and how relock behaves in the same situation
 *
 * The documentation of Redis warns of these schemes: SETNX alone; SETNX and then EXPIRE; SETNX with
 * a timestamp, and GETSET; a release by DEL that does not check whose lock it deletes. The program
 * runs them command by command on plain connections, so that a rare failure happens every time.
 * Then it creates the same situation for a lock of relock.
 *
 *     cc why_not.c why_not_people.c $(pkg-config --cflags --libs relock hiredis) -pthread
 *     ./a.out [URL]                   redis://host:port or unix://path; writes to the server
 */
#include "why_not_people.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 30000 /* longer than any lease in this program */
#define MEANWHILE_MS 50

static bool outcome(bool came, const char *what)
{
    printf("    %s %s\n", came ? "=>" : "=> FAILED: this should have happened:", what);
    return came;
}

/* ---- SETNX alone ---- */

static void acquire_and_die(void)
{
    struct user ann = join("ann", LEASE_MS);

    report(&ann, "relock_lock", relock_lock(ann.lock));
    die(ann.name);
}

static bool is_acquired_after_the_lease(void)
{
    struct user bob = join("bob", PATIENCE_MS);
    bool is_acquired =
        report(&bob, "relock_timedlock", relock_timedlock(bob.lock, PATIENCE_MS)) == 0;

    is_acquired &= report(&bob, "relock_unlock", relock_unlock(bob.lock)) == RELOCK_OK;
    leave(&bob);
    return outcome(is_acquired, "the lease of the dead holder expired, and bob acquired the lock");
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
    return outcome(stays, "the holder is dead, and nobody can ever acquire the lock");
}

static bool setnx_alone(void)
{
    bool as_expected;

    printf("\nSETNX alone: a caller that gets 1 holds the lock, and deletes it when it is done\n");
    await_death(begin(setnx_and_die));
    as_expected = stays_for_ever();
    clear();

    printf("  relock: the lock has a lease, which its holder renews while it lives\n");
    await_death(begin(acquire_and_die));
    return is_acquired_after_the_lease() && as_expected;
}

/* ---- SETNX, then EXPIRE ---- */

static void setnx_then_expire(void)
{
    struct person ann = come("ann");

    if (ask(&ann, "SETNX " LOCK " ann") == 1) {
        die(ann.name); /* at the worst moment */
        ask(&ann, "PEXPIRE " LOCK " %d", LEASE_MS);
    }
}

static void acquire_and_stay(void)
{
    struct user ann = join("ann", LEASE_MS);

    report(&ann, "relock_lock", relock_lock(ann.lock));
    pause();
}

static bool lease_in_a_second_command(void)
{
    bool as_expected;
    pid_t pid;

    printf("\nSETNX, then EXPIRE: a second command sets a lease\n");
    await_death(begin(setnx_then_expire));
    as_expected = stays_for_ever();
    clear();

    printf("  relock: one script sets the lock and its lease, so nothing can happen in between\n");
    pid = begin(acquire_and_stay);
    as_expected &= outcome(first_pttl() > 0, "the lock has a lease as soon as it exists");
    kill(pid, SIGKILL);
    await_death(pid);
    return is_acquired_after_the_lease() && as_expected;
}

/* ---- SETNX with a timestamp ---- */

static long long clock_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Both see that the lock has expired before either of them acts. */
static bool deleted_when_expired(struct person *bob, struct person *cid)
{
    long long now = clock_ms();
    bool both_saw_it, bob_holds, cid_holds;

    both_saw_it = ask(bob, "GET " LOCK) < now && ask(cid, "GET " LOCK) < now;
    ask(bob, "DEL " LOCK);
    bob_holds = ask(bob, "SETNX " LOCK " %lld", now + LEASE_MS) == 1;
    ask(cid, "DEL " LOCK);
    cid_holds = ask(cid, "SETNX " LOCK " %lld", now + LEASE_MS) == 1;
    return outcome(both_saw_it && bob_holds && cid_holds,
                   "bob and cid both believe that they hold the lock");
}

/* The first caller gets an expired timestamp back from GETSET. But expired by which clock? */
static bool exchanged_when_expired(struct person *bob, struct person *cid)
{
    long long now = clock_ms(), now_of_cid = now + 2 * LEASE_MS;
    bool both_saw_it, bob_holds, cid_holds;

    printf("    the same with GETSET, and cid's clock is %d ms fast\n", 2 * LEASE_MS);
    both_saw_it = ask(bob, "GET " LOCK) < now && ask(cid, "GET " LOCK) < now_of_cid;
    bob_holds = ask(bob, "GETSET " LOCK " %lld", now + LEASE_MS) < now;
    cid_holds = ask(cid, "GETSET " LOCK " %lld", now_of_cid + LEASE_MS) < now_of_cid;
    return outcome(both_saw_it && bob_holds && cid_holds,
                   "bob and cid both believe that they hold the lock");
}

static void leave_a_timestamp(struct person *person)
{
    clear();
    ask(person, "SETNX " LOCK " %lld", clock_ms() - 1);
}

struct racer {
    struct user user;
    atomic_int *n_inside, *n_most;
    bool acquired_it;
};

static void *race(void *arg)
{
    struct racer *racer = arg;
    int r = relock_timedlock(racer->user.lock, PATIENCE_MS), n;

    n = atomic_fetch_add(racer->n_inside, 1) + 1;
    if (n > atomic_load(racer->n_most))
        atomic_store(racer->n_most, n);
    report(&racer->user, "relock_timedlock", r);
    usleep(MEANWHILE_MS * 1000); /* without a lock the other would get in here */
    atomic_fetch_sub(racer->n_inside, 1);
    racer->acquired_it = r == RELOCK_OK && relock_unlock(racer->user.lock) == RELOCK_OK;
    return NULL;
}

static bool one_holds_it_after_the_other(void)
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
    return outcome(racers[0].acquired_it && racers[1].acquired_it && n_most == 1,
                   "one holds it after the other");
}

static bool timestamps(void)
{
    struct person ann = come("ann"), bob = come("bob"), cid = come("cid");
    bool as_expected;

    printf("\nSETNX with a timestamp: a caller that finds it expired takes the lock over\n");
    leave_a_timestamp(&ann);
    as_expected = deleted_when_expired(&bob, &cid);
    leave_a_timestamp(&ann);
    as_expected &= exchanged_when_expired(&bob, &cid);
    clear();
    go(&ann);
    go(&bob);
    go(&cid);

    printf("  relock: only the clock of Redis counts, and Redis itself expires the lock\n");
    await_death(begin(acquire_and_die));
    return one_holds_it_after_the_other() && as_expected;
}

/* ---- DEL without a comparison ---- */

static bool somebody_elses_is_deleted(void)
{
    struct person ann = come("ann"), bob = come("bob"), cid = come("cid");
    bool bob_holds, cid_holds;

    ask(&ann, "SET " LOCK " ann NX PX %d", LEASE_MS);
    wait_until_free(&ann); /* ann works for longer than her lease */
    bob_holds = ask(&bob, "SET " LOCK " bob NX PX %d", PATIENCE_MS) == 1;
    ask(&ann, "DEL " LOCK);
    cid_holds = ask(&cid, "SET " LOCK " cid NX PX %d", PATIENCE_MS) == 1;
    go(&ann);
    go(&bob);
    go(&cid);
    return outcome(bob_holds && cid_holds, "bob and cid both believe that they hold the lock");
}

static bool somebody_elses_stays(void)
{
    const struct relock_how how = {.lease_ms = LEASE_MS};
    struct user ann = join("ann", PATIENCE_MS), bob = join("bob", PATIENCE_MS),
                cid = join("cid", PATIENCE_MS);
    bool stays;

    report(&ann, "relock_acquire with a fixed lease", relock_acquire(ann.lock, &how, NULL));
    stays = report(&bob, "relock_timedlock", relock_timedlock(bob.lock, PATIENCE_MS)) == RELOCK_OK;
    stays &= report(&ann, "relock_unlock", relock_unlock(ann.lock)) == RELOCK_LOST;
    stays &= report(&cid, "relock_trylock", relock_trylock(cid.lock)) == RELOCK_BUSY;
    stays &= report(&bob, "relock_unlock", relock_unlock(bob.lock)) == RELOCK_OK;
    leave(&ann);
    leave(&bob);
    leave(&cid);
    return outcome(stays, "bob kept his lock, and ann learned that she had lost hers");
}

static bool delete_without_a_comparison(void)
{
    bool as_expected;

    printf("\nDEL without a comparison: SET with NX and PX is right, but DEL may meet another's "
           "lock\n");
    as_expected = somebody_elses_is_deleted();
    clear();

    printf("  relock: the release compares and deletes in one script\n");
    return somebody_elses_stays() && as_expected;
}

int main(int argc, char **argv)
{
    bool as_expected;

    if (argc > 1)
        url = argv[1];
    setlinebuf(stdout); /* else a child may print its parent's buffer again */
    signal(SIGPIPE, SIG_IGN);

    clear();
    as_expected = setnx_alone();
    as_expected &= lease_in_a_second_command();
    as_expected &= timestamps();
    as_expected &= delete_without_a_comparison();
    clear();
    return as_expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
