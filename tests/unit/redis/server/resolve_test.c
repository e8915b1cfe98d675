/* Resolving host names without blocking the caller. */
#include "redis/server/resolve.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "redis/server/server.h"
#include "support/child.h"
#include "support/leaks.h"
#include "support/wait.h"
#include "unit/common/hosts.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ROUNDS 100
#define PORT 7000

/* The resolver of the system does not answer for this host until the gate opens. */
#define SLOW_HOST "slow.example"

/* It has these addresses. */
#define MANY_HOST "many.example"
static const char *const *many;

static struct relock_gate answers;
static atomic_bool is_asked; /* for the slow host */
static struct leaks before;
static struct relock_resolver *resolver;
static struct relock_addresses addresses;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (strcmp(host, MANY_HOST) == 0)
        return hints->ai_flags & AI_NUMERICHOST ? EAI_NONAME : hosts_find(many, port, found);
    if (strcmp(host, SLOW_HOST) != 0)
        return __real_getaddrinfo(host, port, hints, found);
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    atomic_store(&is_asked, true);
    (void)relock_gate_wait(&answers, RELOCK_NEVER);
    return __real_getaddrinfo("127.0.0.1", port, hints, found);
}

static bool has_threads; /* the system does */

int __wrap_relock_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *arg);
int __real_relock_thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *arg);

int __wrap_relock_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    return has_threads ? __real_relock_thread_start(thread, name, run, arg) : RELOCK_E_NOMEM;
}

static _Thread_local void (*after_unlock)(void); /* runs once */

void __wrap_relock_mutex_unlock(struct relock_mutex *mutex);
void __real_relock_mutex_unlock(struct relock_mutex *mutex);

RELOCK_UNCHECKED void __wrap_relock_mutex_unlock(struct relock_mutex *mutex)
{
    void (*fn)(void) = after_unlock;

    __real_relock_mutex_unlock(mutex);
    after_unlock = NULL;
    if (fn)
        fn();
}

static int begin(void **state)
{
    (void)state;
    atomic_store(&is_asked, false);
    before = leaks_now();
    resolver = NULL;
    addresses.n = 0;
    has_threads = true;
    relock_gate_init(&answers);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_gate_open(&answers);
    relock_resolver_free(resolver);
    return leaks_none_since(&before) ? 0 : -1;
}

static struct relock_lookup *look_up(const char *host)
{
    struct relock_lookup *lookup = NULL;
    const char *why = NULL;

    if (!resolver)
        resolver = relock_resolver_new(host, PORT);
    assert_non_null(resolver);
    assert_int_equal(relock_lookup_new(resolver, NULL, &lookup, &why), RELOCK_OK);
    return lookup;
}

static bool is_readable(const struct relock_lookup *lookup, uint64_t within_ms)
{
    struct pollfd pollfd = {.fd = relock_lookup_fd(lookup), .events = POLLIN};

    return poll(&pollfd, 1, (int)slow_ms(within_ms)) == 1;
}

static int take(struct relock_lookup *lookup)
{
    const char *why = NULL;
    int r = relock_lookup_take(lookup, &addresses, &why);

    if (r < 0)
        assert_string_not_equal(why, "");
    return r;
}

static void a_numeric_address_is_resolved_at_once(void **state)
{
    struct relock_lookup *lookup = look_up("127.0.0.1");
    const struct sockaddr_in *address = (const void *)&addresses.at[0].address;

    (void)state;

    assert_int_equal(leaks_now().n_threads, before.n_threads);
    assert_true(is_readable(lookup, 0));
    assert_int_equal(take(lookup), RELOCK_OK);
    assert_int_equal(addresses.n, 1);
    assert_int_equal(addresses.at[0].len, sizeof(*address));
    assert_int_equal(address->sin_family, AF_INET);
    assert_int_equal(ntohl(address->sin_addr.s_addr), INADDR_LOOPBACK);
    assert_int_equal(ntohs(address->sin_port), PORT);
    assert_null(relock_lookup_free(lookup));
}

static void a_numeric_ipv6_address_is_resolved_at_once(void **state)
{
    struct relock_lookup *lookup = look_up("::1");
    const struct sockaddr_in6 *address = (const void *)&addresses.at[0].address;

    (void)state;

    assert_int_equal(take(lookup), RELOCK_OK);
    assert_int_equal(address->sin6_family, AF_INET6);
    assert_memory_equal(&address->sin6_addr, &in6addr_loopback, sizeof(in6addr_loopback));
    assert_int_equal(ntohs(address->sin6_port), PORT);
    relock_lookup_free(lookup);
}

static void addresses_may_be_left_untaken(void **state)
{
    (void)state;

    relock_lookup_free(look_up("127.0.0.1"));
    assert_null(relock_lookup_free(NULL));
}

static void localhost_is_found(void **state)
{
    struct relock_lookup *lookup = look_up("localhost");

    (void)state;

    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_OK);
    assert_true(addresses.n > 0);
    relock_lookup_free(lookup);
}

static void a_name_that_does_not_exist_is_a_failure_with_a_reason(void **state)
{
    /* Invalid without asking a resolver: a label must not be empty. */
    struct relock_lookup *lookup = look_up("no..such..host");

    (void)state;

    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_E_CONN);
    assert_int_equal(addresses.n, 0);
    relock_lookup_free(lookup);
}

static void there_is_no_address_before_the_answer(void **state)
{
    struct relock_lookup *lookup = look_up(SLOW_HOST);

    (void)state;

    assert_int_equal(take(lookup), RELOCK_AGAIN);
    assert_false(is_readable(lookup, 0));
    relock_gate_open(&answers);
    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_OK);
    relock_lookup_free(lookup);
}

/* The end of each test checks that no descriptor and no thread is left. */
static void a_lookup_given_up_does_not_wait_for_the_answer(void **state)
{
    (void)state;

    for (int i = 0; i < ROUNDS; i++) {
        struct relock_lookup *lookup = look_up("localhost");

        if (i % 2 == 1) /* or at the moment when the result arrives */
            assert_true(is_readable(lookup, SOON_MS));
        relock_lookup_free(lookup);
    }
}

static void a_resolver_that_hangs_costs_one_thread(void **state)
{
    struct relock_lookup *first, *second;

    (void)state;

    for (int i = 0; i < ROUNDS; i++)
        relock_lookup_free(look_up(SLOW_HOST));
    first = look_up(SLOW_HOST);
    second = look_up(SLOW_HOST);
    assert_int_equal(leaks_now().n_threads, before.n_threads + 1);
    relock_gate_open(&answers);
    assert_true(is_readable(first, SOON_MS));
    assert_true(is_readable(second, SOON_MS));
    assert_int_equal(take(first), RELOCK_OK);
    assert_int_equal(take(second), RELOCK_OK);
    assert_int_equal(addresses.n, 1);
    relock_lookup_free(first);
    relock_lookup_free(second);
}

/* ---- threads ------------------------------------------------------------------------------- */

static struct relock_lookup *look_up_with(struct relock_resolver *other)
{
    struct relock_lookup *lookup = NULL;
    const char *why = NULL;

    assert_int_equal(relock_lookup_new(other, NULL, &lookup, &why), RELOCK_OK);
    return lookup;
}

static void a_lookup_takes_no_new_thread(void **state)
{
    (void)state;

    resolver = relock_resolver_new("localhost", PORT);
    has_threads = false;
    for (int i = 0; i < 3; i++) {
        struct relock_lookup *lookup = look_up("localhost");

        assert_true(is_readable(lookup, SOON_MS));
        assert_int_equal(take(lookup), RELOCK_OK);
        relock_lookup_free(lookup);
    }
    assert_int_equal(leaks_now().n_threads, before.n_threads + 1);
}

static void several_names_have_one_thread(void **state)
{
    struct relock_resolver *other;

    (void)state;

    resolver = relock_resolver_new("localhost", PORT);
    other = relock_resolver_new(SLOW_HOST, PORT);
    assert_int_equal(leaks_now().n_threads, before.n_threads + 1);
    relock_resolver_free(other);
    assert_int_equal(leaks_now().n_threads, before.n_threads + 1);
}

static void a_name_does_not_wait_behind_one_that_hangs(void **state)
{
    struct relock_resolver *other = relock_resolver_new("localhost", PORT);
    struct relock_lookup *slow = look_up(SLOW_HOST), *lookup;

    (void)state;

    lookup = look_up_with(other);
    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_OK);
    assert_int_equal(take(slow), RELOCK_AGAIN);
    relock_lookup_free(lookup);
    relock_lookup_free(slow);
    relock_resolver_free(other);
}

static void a_name_waits_behind_one_that_hangs_if_there_is_no_further_thread(void **state)
{
    struct relock_resolver *other = relock_resolver_new("localhost", PORT);
    struct relock_lookup *slow = look_up(SLOW_HOST), *lookup;

    (void)state;

    has_threads = false;
    lookup = look_up_with(other);
    assert_int_equal(take(lookup), RELOCK_AGAIN);
    relock_gate_open(&answers);
    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_OK);
    relock_lookup_free(lookup);
    relock_lookup_free(slow);
    relock_resolver_free(other);
}

static void a_resolver_that_hangs_is_freed_at_once(void **state)
{
    struct relock_lookup *lookup = look_up(SLOW_HOST);
    uint64_t began_ms = relock_clock_now_ms();

    (void)state;

    relock_lookup_free(lookup);
    relock_resolver_free(resolver);
    assert_true(relock_clock_now_ms() - began_ms < SOON_MS);
    resolver = relock_resolver_new("localhost", PORT); /* has another thread */
    lookup = look_up("localhost");
    assert_true(is_readable(lookup, SOON_MS));
    relock_lookup_free(lookup);
}

static struct relock_lookup *behind; /* the thread begins with it after the one that hangs */

static bool is_slow_asked(void *arg)
{
    (void)arg;
    return atomic_load(&is_asked);
}

static void end_both(void)
{
    relock_gate_open(&answers);
    assert_true(is_readable(behind, SOON_MS));
}

/* From then on, the resolver belongs to the thread that looks up. */
static void a_resolver_may_end_as_soon_as_it_is_left_to_its_thread(void **state)
{
    struct relock_resolver *other = relock_resolver_new("localhost", PORT);
    struct relock_lookup *lookup = look_up(SLOW_HOST);

    (void)state;

    assert_true(wait_until(is_slow_asked, NULL, SOON_MS));
    has_threads = false;
    behind = look_up_with(other);
    relock_lookup_free(lookup);
    after_unlock = end_both;
    relock_resolver_free(resolver);
    resolver = NULL;
    assert_null(after_unlock);
    relock_lookup_free(behind);
    relock_resolver_free(other);
}

static void keep_line(int level, const char *line, void *arg)
{
    if (level == RELOCK_LOG_ERROR)
        snprintf(arg, RELOCK_WHY_MAX, "%s", line);
}

static void without_a_thread_there_is_no_server_of_a_name_and_the_log_says_why(void **state)
{
    char said[RELOCK_WHY_MAX] = "";
    const struct relock_log log = {.level = RELOCK_LOG_INFO, .sink = keep_line, .arg = said};
    struct relock_server server;

    (void)state;

    has_threads = false;
    assert_int_equal(relock_server_init(&server,
                                        &(struct relock_options){.url = "redis://" SLOW_HOST}, "id",
                                        &log),
                     RELOCK_E_NOMEM);
    assert_non_null(strstr(said, "no client was made: " SLOW_HOST ":6379: "));
    assert_non_null(strstr(said, "no thread could be started"));
    assert_int_equal(relock_server_init(
                         &server, &(struct relock_options){.url = "redis://127.0.0.1"}, "id", &log),
                     RELOCK_OK);
    relock_server_deinit(&server);
}

/* Its parent's thread is not there. */
static void a_forked_child_looks_up_names_too(void **state)
{
    struct relock_lookup *slow;
    int status = 1;
    pid_t child;

    (void)state;

    if (!child_can_have_threads())
        skip();
    slow = look_up(SLOW_HOST);
    child = fork();
    if (child == 0) {
        struct relock_resolver *own = relock_resolver_new("localhost", PORT);
        struct relock_lookup *lookup = NULL;
        const char *why;

        if (own && relock_lookup_new(own, NULL, &lookup, &why) == RELOCK_OK &&
            is_readable(lookup, SOON_MS) && take(lookup) == RELOCK_OK)
            status = 0;
        relock_lookup_free(lookup);
        relock_resolver_free(own);
        _exit(status);
    }
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    relock_lookup_free(slow);
}

/* ---- the order of addresses ---------------------------------------------------------------- */

static void is_at(unsigned i, const char *digits)
{
    char host[NI_MAXHOST];

    assert_true(i < addresses.n);
    assert_int_equal(getnameinfo((const void *)&addresses.at[i].address, addresses.at[i].len, host,
                                 sizeof(host), NULL, 0, NI_NUMERICHOST),
                     0);
    assert_string_equal(host, digits);
}

static void come_in_turn(const char *const found[HOSTS_MAX], const char *const taken[HOSTS_MAX])
{
    struct relock_lookup *lookup;
    unsigned n = 0;

    many = found;
    lookup = look_up(MANY_HOST);
    assert_true(is_readable(lookup, SOON_MS));
    assert_int_equal(take(lookup), RELOCK_OK);
    relock_lookup_free(lookup);
    for (; taken[n]; n++)
        is_at(n, taken[n]);
    assert_int_equal(addresses.n, n);
}

/* The system prefers the first. If a family has more addresses than fit, the other has its share.
 */
static void the_families_come_in_turn_beginning_with_the_preferred_one(void **state)
{
    static const char *const cases[][2][HOSTS_MAX] = {
        {{"::1", "::2", "::3", "127.0.0.1", "127.0.0.2"},
         {"::1", "127.0.0.1", "::2", "127.0.0.2", "::3"}},
        {{"127.0.0.1", "::1", "::2", "::3"}, {"127.0.0.1", "::1", "::2", "::3"}},
        {{"127.0.0.2", "127.0.0.1"}, {"127.0.0.2", "127.0.0.1"}},
        {{"::1", "::2", "::3", "::4", "::5", "::6", "::7", "::8", "127.0.0.1"},
         {"::1", "127.0.0.1", "::2", "::3", "::4", "::5", "::6", "::7"}},
    };

    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        come_in_turn(cases[i][0], cases[i][1]);
}

/* ---- another source ------------------------------------------------------------------------ */

static unsigned n_looked_up, n_distrusted, n_stopped, n_freed;

static void find(void *arg, bool distrusts, struct relock_found *answer)
{
    n_looked_up++;
    n_distrusted += distrusts;
    if (arg)
        (void)relock_gate_wait(arg, RELOCK_NEVER);
    *answer = (struct relock_found){.result = RELOCK_E_AUTH, .why = "not for you"};
}

static void stop_finding(void *arg)
{
    n_stopped++;
    if (arg)
        relock_gate_open(arg);
}

static void count_free(void *arg)
{
    (void)arg;
    n_freed++;
}

/* `arg`: the gate at which it waits; NULL: it does not. */
static void use_source(struct relock_gate *arg)
{
    static const struct relock_source_ops ops = {
        .look_up = find, .stop = stop_finding, .free = count_free};

    n_looked_up = n_distrusted = n_stopped = n_freed = 0;
    resolver = relock_resolver_new_for(&ops, arg);
}

static void a_source_takes_the_place_of_the_system_s_resolver(void **state)
{
    struct relock_lookup *first, *second;

    (void)state;

    use_source(&answers);
    first = look_up("");
    second = look_up("");
    assert_int_equal(take(first), RELOCK_AGAIN);
    relock_gate_open(&answers);
    assert_true(is_readable(first, SOON_MS));
    assert_true(is_readable(second, SOON_MS));
    assert_int_equal(take(first), RELOCK_E_AUTH);
    assert_int_equal(take(second), RELOCK_E_AUTH);
    assert_int_equal(n_looked_up, 1);
    relock_lookup_free(first);
    relock_lookup_free(second);
}

static void a_source_learns_once_that_its_answer_was_of_no_use(void **state)
{
    (void)state;

    use_source(NULL);
    for (unsigned i = 0; i < 4; i++) {
        struct relock_lookup *lookup;

        if (i == 1) {
            relock_resolver_distrust(resolver);
            relock_resolver_distrust(resolver);
        }
        lookup = look_up("");
        assert_true(is_readable(lookup, SOON_MS));
        relock_lookup_free(lookup);
    }
    assert_int_equal(n_distrusted, 1);
    relock_resolver_distrust(NULL);
}

static void the_end_of_a_resolver_waits_for_its_source(void **state)
{
    (void)state;

    use_source(&answers);
    relock_lookup_free(look_up(""));
    relock_resolver_free(resolver);
    resolver = NULL;
    assert_int_equal(n_stopped, 1);
    assert_int_equal(n_freed, 1);
    assert_true(n_looked_up <= 1);
}

#define RESOLVE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESOLVE_TEST(a_numeric_address_is_resolved_at_once),
        RESOLVE_TEST(a_numeric_ipv6_address_is_resolved_at_once),
        RESOLVE_TEST(addresses_may_be_left_untaken),
        RESOLVE_TEST(localhost_is_found),
        RESOLVE_TEST(a_name_that_does_not_exist_is_a_failure_with_a_reason),
        RESOLVE_TEST(there_is_no_address_before_the_answer),
        RESOLVE_TEST(a_lookup_given_up_does_not_wait_for_the_answer),
        RESOLVE_TEST(a_resolver_that_hangs_costs_one_thread),
        RESOLVE_TEST(a_lookup_takes_no_new_thread),
        RESOLVE_TEST(several_names_have_one_thread),
        RESOLVE_TEST(a_name_does_not_wait_behind_one_that_hangs),
        RESOLVE_TEST(a_name_waits_behind_one_that_hangs_if_there_is_no_further_thread),
        RESOLVE_TEST(a_resolver_that_hangs_is_freed_at_once),
        RESOLVE_TEST(a_resolver_may_end_as_soon_as_it_is_left_to_its_thread),
        RESOLVE_TEST(without_a_thread_there_is_no_server_of_a_name_and_the_log_says_why),
        RESOLVE_TEST(a_forked_child_looks_up_names_too),
        RESOLVE_TEST(the_families_come_in_turn_beginning_with_the_preferred_one),
        RESOLVE_TEST(a_source_takes_the_place_of_the_system_s_resolver),
        RESOLVE_TEST(a_source_learns_once_that_its_answer_was_of_no_use),
        RESOLVE_TEST(the_end_of_a_resolver_waits_for_its_source),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
