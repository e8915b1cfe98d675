/* Making a connection: a server whose queue is full, and a process without descriptors. */
#include "redis/connect/connect.h"

#include "base/clock.h"
#include "base/status.h"
#include "support/leaks.h"
#include "support/wait.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#define MAX_QUEUED 64

static char dir[] = "/tmp/relock-dial-XXXXXX";
static char path[64], label[] = "h:6379", digits[] = "127.0.0.1", name[] = "localhost";
static struct relock_server server;
static struct relock_dial dial;
static struct leaks before;
static struct rlimit limit;

static int listener = -1;
static int queued[MAX_QUEUED];
static size_t n_queued;

static struct sockaddr_un address_of_path(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return address;
}

static void listen_at_path(void)
{
    struct sockaddr_un address = address_of_path();

    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 0), 0);
}

/* Connects until the server's queue is full. */
static void fill_queue(void)
{
    struct sockaddr_un address = address_of_path();
    int r = 0;

    while (r == 0 && n_queued < MAX_QUEUED) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        r = connect(fd, (struct sockaddr *)&address, sizeof(address));
        if (r < 0)
            assert_int_equal(errno, EAGAIN);
        queued[n_queued++] = fd;
    }
    assert_int_equal(r, -1);
}

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    server = (struct relock_server){.url = {.path = path}, .label = label};
    server.connect_timeout_ms = slow_ms(SOON_MS);
    relock_dial_init(&dial, &server);
    return getrlimit(RLIMIT_NOFILE, &limit);
}

static int end(void **state)
{
    (void)state;
    setrlimit(RLIMIT_NOFILE, &limit);
    relock_dial_end(&dial);
    while (n_queued > 0)
        close(queued[--n_queued]);
    if (listener >= 0)
        close(listener);
    listener = -1;
    unlink(path);
    return leaks_none_since(&before) ? 0 : -1;
}

/* Steps until the dial has ended, at most `n_steps` times. */
static int step_for(size_t n_steps, struct relock_socket *got)
{
    int r = RELOCK_AGAIN;

    for (size_t i = 0; i < n_steps && r == RELOCK_AGAIN; i++) {
        uint64_t now_ms = relock_clock_now_ms();
        struct pollfd pollfd = {.fd = dial.fd,
                                .events = relock_dial_wants_to_write(&dial) ? POLLOUT : POLLIN};

        if (i > 0)
            (void)poll(&pollfd, 1, relock_clock_poll_ms(now_ms, dial.deadline_ms));
        r = relock_dial_step(&dial, relock_clock_now_ms(), got);
    }
    return r;
}

/* ---- a full queue -------------------------------------------------------------------------- */

static void a_connect_to_a_full_queue_is_retried_until_it_has_room(void **state)
{
    struct relock_socket got = {.fd = -1};

    (void)state;

    listen_at_path();
    fill_queue();
    assert_int_equal(step_for(5, &got), RELOCK_AGAIN);
    assert_int_equal(dial.fd, -1); /* only time can end the wait */
    close(accept(listener, NULL, NULL));
    assert_int_equal(step_for(1000, &got), RELOCK_OK);
    assert_true(got.fd >= 0);
    close(got.fd);
}

static void attempts_are_separated_by_pauses(void **state)
{
    uint64_t began_ms = relock_clock_now_ms(), now_ms = began_ms;
    size_t n_tries = 0;
    struct relock_socket got;

    (void)state;

    listen_at_path();
    fill_queue();
    server.connect_timeout_ms = 10000;
    do {
        uint64_t deadline_ms;

        assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN);
        deadline_ms = dial.deadline_ms;
        assert_true(deadline_ms > now_ms && deadline_ms <= dial.limit_ms);
        assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_AGAIN); /* too early */
        assert_true(dial.deadline_ms == deadline_ms);
        now_ms = deadline_ms;
        n_tries++;
    } while (now_ms < dial.limit_ms);
    assert_true(now_ms == began_ms + 10000);
    assert_in_range(n_tries, 90, 350); /* 180 on average */
    assert_int_equal(relock_dial_step(&dial, now_ms, &got), RELOCK_E_CONN);
}

static void a_queue_that_stays_full_is_an_error_that_says_so(void **state)
{
    uint64_t began_ms = relock_clock_now_ms();
    struct relock_socket got;

    (void)state;

    listen_at_path();
    fill_queue();
    server.connect_timeout_ms = 200;
    assert_int_equal(step_for(200, &got),
                     RELOCK_E_CONN); /* a busy loop would take many more steps */
    assert_true(relock_clock_now_ms() - began_ms >= 200);
    assert_non_null(strstr(dial.why, "h:6379: "));
    assert_non_null(strstr(dial.why, "tcp-backlog"));
}

static void a_dial_given_up_can_begin_again(void **state)
{
    struct relock_socket got = {.fd = -1};

    (void)state;

    listen_at_path();
    fill_queue();
    assert_int_equal(step_for(3, &got), RELOCK_AGAIN);
    relock_dial_end(&dial);
    while (n_queued > 0)
        close(queued[--n_queued]);
    for (int taken = 0; taken >= 0;) {
        taken = accept(listener, NULL, NULL);
        if (taken >= 0)
            close(taken);
    }
    assert_int_equal(step_for(2, &got), RELOCK_OK);
    close(got.fd);
}

/* ---- no descriptor ------------------------------------------------------------------------- */

/* Limits this process to so many free descriptors. */
static void leave_descriptors(rlim_t n)
{
    struct rlimit less = limit;
    int fd = dup(STDERR_FILENO); /* the lowest free descriptor; all above it are free too */

    assert_true(fd >= 0);
    close(fd);
    less.rlim_cur = (rlim_t)fd + n;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
}

static void the_limit_is_named(char *host, rlim_t n)
{
    struct relock_socket got;
    int r;

    server.url = (struct relock_url){.host = host, .port = 1, .path = host ? NULL : path};
    server.resolver = host ? relock_resolver_new(host, 1) : NULL;
    leave_descriptors(n);
    r = step_for(1000, &got);
    setrlimit(RLIMIT_NOFILE, &limit);
    relock_resolver_free(server.resolver);
    assert_int_equal(r, RELOCK_E_CONN);
    assert_non_null(strstr(dial.why, "h:6379: "));
    if (!strstr(dial.why, "ulimit -n"))
        fail_msg("%s with %u descriptors: %s", host ? host : path, (unsigned)n, dial.why);
}

static void without_a_descriptor_the_limit_of_the_process_is_named(void **state)
{
    (void)state;

    the_limit_is_named(NULL, 0);
    the_limit_is_named(digits, 0);
    the_limit_is_named(name, 0);
}

/* The resolver reports an unknown name, or a temporary failure. */
static void a_descriptor_limit_met_by_the_resolver_is_named(void **state)
{
    (void)state;

    the_limit_is_named(name, 1);
}

#define DIAL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIAL_TEST(a_connect_to_a_full_queue_is_retried_until_it_has_room),
        DIAL_TEST(attempts_are_separated_by_pauses),
        DIAL_TEST(a_queue_that_stays_full_is_an_error_that_says_so),
        DIAL_TEST(a_dial_given_up_can_begin_again),
        DIAL_TEST(without_a_descriptor_the_limit_of_the_process_is_named),
        DIAL_TEST(a_descriptor_limit_met_by_the_resolver_is_named),
    };
    int r;

    if (!mkdtemp(dir))
        return EXIT_FAILURE;
    snprintf(path, sizeof(path), "%s/socket", dir);
    r = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(dir);
    return r;
}
