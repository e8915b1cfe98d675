/* Multi locks: the client is freed at the very moment at which a call that failed returns. */
#include "support/multi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

#define SHORT_MS 1300 /* a login is answered within this time, also on a slow machine */

typedef int set_cancel_fn(int state, int *before);

/* ---- where a call has left its client ------------------------------------------------------ */

/* The last step of a call on its client enables thread cancellation again. There the thread stops
 * until its client is freed. */
static struct {
    sem_t has_left;
    sem_t may_return;
} gate;
static _Thread_local bool stops_here;

int pthread_setcancelstate(int state, int *before)
{
    set_cancel_fn *real;

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    if (stops_here && state == PTHREAD_CANCEL_ENABLE) {
        stops_here = false;
        sem_post(&gate.has_left);
        while (sem_wait(&gate.may_return) != 0)
            ;
    }
    return real(state, before);
}

static void *try_and_stop(void *arg)
{
    struct relock_lock *both = arg;

    stops_here = true;
    return relock_trylock(both) == RELOCK_E_CONN ? both : NULL;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void a_call_that_fails_has_logged_why_before_its_client_is_freed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = outlast_ms(SHORT_MS)});
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *both = fixture_multi(f, a, b, NULL);
    pthread_t thread;
    void *returned;

    sem_init(&gate.has_left, 0, 0);
    sem_init(&gate.may_return, 0, 0);
    server_pause(f->server);
    assert_int_equal(pthread_create(&thread, NULL, try_and_stop, both), 0);
    while (sem_wait(&gate.has_left) != 0)
        ;
    server_resume(f->server);
    fixture_free_client(f, client);
    sem_post(&gate.may_return);
    assert_int_equal(pthread_join(thread, &returned), 0);

    assert_ptr_equal(returned, both);
    assert_int_equal(log_count(f->log, "not acquired"), 2); /* the member and the whole */
    sem_destroy(&gate.may_return);
    sem_destroy(&gate.has_left);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_call_that_fails_has_logged_why_before_its_client_is_freed),
    };

    return SERVER_TESTS_RUN(tests);
}
