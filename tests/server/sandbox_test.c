/* A sandbox denies a system call: the library says so, and goes on or returns a result. */
#include "support/child.h"
#include "support/fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Exit status of a child that may not have a sandbox. */
#define NO_SANDBOX 78

/* From now on, that system call fails with `err`, in all threads of the process. */
static void deny(unsigned call, unsigned err)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | err),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
        exit(NO_SANDBOX);
}

struct denial {
    struct fixture *f;
    const char *url;
    unsigned call, err;
    const char *text; /* of the line in the log */
};

static int make_no_client(struct child *parent, void *arg)
{
    const struct denial *denial = arg;
    struct relock_options options =
        fixture_options(denial->f, &(struct relock_options){.url = denial->url});
    struct relock_client *client;

    (void)parent;
    deny(denial->call, denial->err);
    child_must(relock_client_new(&options, &client) == RELOCK_E_UNSUPPORTED);
    child_must(log_count(denial->f->log, denial->text) == 1);
    child_must(log_count(denial->f->log, "no client was made: ") == 1);
    child_must(log_count(denial->f->log, "out of memory") == 0);
    return EXIT_SUCCESS;
}

static int go_on(struct child *parent, void *arg)
{
    const struct denial *denial = arg;
    struct relock_client *client = child_client(denial->f, NULL);
    struct relock_lock *lock;

    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    deny(denial->call, denial->err);
    child_must(child_send(parent, 1) && child_await(parent)); /* its connections are killed */
    child_must(wait_for_reconnects(client, 1));
    child_must(relock_unlock(lock) == RELOCK_OK);
    child_must(relock_lock_free(lock) == NULL);
    child_must(relock_client_free(client) == NULL);
    return EXIT_SUCCESS;
}

static int make_no_events(struct child *parent, void *arg)
{
    const struct denial *denial = arg;
    struct relock_client *client = child_client(denial->f, NULL);
    struct relock_events *events;

    (void)parent;
    deny(denial->call, denial->err);
    child_must(relock_events_new(client, &events) == RELOCK_E_UNSUPPORTED);
    child_must(relock_client_free(client) == NULL);
    child_must(log_count(denial->f->log, denial->text) == 1);
    child_must(log_count(denial->f->log, "out of memory") == 0);
    return EXIT_SUCCESS;
}

static void assert_success(struct child *child)
{
    int status = child_wait(child, SOON_MS);

    if (status == NO_SANDBOX) {
        (void)fprintf(stderr, "this system gives a process no seccomp filter: skipped\n");
        skip();
    }
    assert_int_equal(status, EXIT_SUCCESS);
}

static void without_getrandom_no_client_is_made_and_the_log_names_it(void **state)
{
    const unsigned errors[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        struct denial denial = {*state, NULL, SYS_getrandom, errors[i], "getrandom"};

        assert_success(child_start(make_no_client, &denial));
    }
}

static void without_getrandom_a_client_goes_on_and_connects_again(void **state)
{
    struct fixture *f = *state;
    struct denial denial = {f, NULL, SYS_getrandom, EPERM, ""};
    struct child *child = child_start(go_on, &denial);

    if (child_await(child)) {
        assert_true(wait_for_login(f->probe));
        assert_true(probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes") >= 2);
        assert_true(child_send(child, 1));
    }
    assert_success(child);
}

static void without_eventfd_no_client_is_made_and_the_log_names_it(void **state)
{
    struct fixture *f = *state;
    const unsigned errors[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        struct denial denial = {f, NULL, SYS_eventfd2, errors[i], "eventfd2"};

        assert_success(child_start(make_no_client, &denial));
        denial.url = f->server->tcp_url;
        assert_success(child_start(make_no_client, &denial));
    }
}

static void without_eventfd_no_queue_of_events_is_made_and_the_log_names_it(void **state)
{
    struct denial denial = {*state, NULL, SYS_eventfd2, EPERM, "eventfd2"};

    assert_success(child_start(make_no_events, &denial));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(without_getrandom_no_client_is_made_and_the_log_names_it),
        SERVER_TEST(without_getrandom_a_client_goes_on_and_connects_again),
        SERVER_TEST(without_eventfd_no_client_is_made_and_the_log_names_it),
        SERVER_TEST(without_eventfd_no_queue_of_events_is_made_and_the_log_names_it),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
