/* The answers of sentinels, and which of them is asked. */
#include "redis/sentinels.h"

#include "base/clock.h"
#include "base/status.h"
#include "fake_server.h"
#include "places.h"
#include "redis/peer.h"
#include "redis/resolve.h"
#include "redis/succession.h"
#include "redis/sync_conn.h"
#include "support/log.h"
#include "support/wait.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define FAKES 2
#define ADDRESS(port) "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n" port "\r\n"
#define NO_MASTER "*-1\r\n"

/* Plays a sentinel that gives each question the same answer. */
struct fake {
    struct fake_server server;
    _Atomic(const char *) answer;
    atomic_int epoch; /* from 0 to 9 */
    atomic_uint n_asked;
};

static struct fake fakes[FAKES];
static struct log *lines;
static struct relock_log sink;
static struct relock_server server;
static struct relock_found found;
static char answer_of_place[64];

/* ---- the sentinels ------------------------------------------------------------------------- */

static void serve(struct fake_server *self, int fd)
{
    struct fake *fake = (struct fake *)self;
    char text[1024], fields[64];

    while (fake_server_hear(fd, text, sizeof(text))) {
        if (!strstr(text, "GET-MASTER-ADDR-BY-NAME")) {
            fake_server_say(fd, "*2\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n");
            continue;
        }
        atomic_fetch_add(&fake->n_asked, 1);
        fake_server_say(fd, atomic_load(&fake->answer));
        snprintf(fields, sizeof(fields), "*2\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n",
                 atomic_load(&fake->epoch));
        fake_server_say(fd, fields);
    }
}

static bool start(struct fake *fake)
{
    atomic_store(&fake->answer, ADDRESS("7000"));
    atomic_store(&fake->epoch, 1);
    atomic_store(&fake->n_asked, 0);
    return fake_server_listen(&fake->server) && fake_server_run(&fake->server, serve);
}

/* ---- around the tests ---------------------------------------------------------------------- */

static int begin(void **state)
{
    struct relock_options options = {.connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS)};
    char url[128];

    (void)state;
    lines = log_new();
    sink = (struct relock_log){.level = RELOCK_LOG_DEBUG, .sink = log_write, .arg = lines};
    for (int i = 0; i < FAKES; i++)
        if (!start(&fakes[i]))
            return -1;
    snprintf(url, sizeof(url), "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/shop",
             fakes[0].server.port, fakes[1].server.port);
    options.url = url;
    if (relock_server_init(&server, &options, "id", &sink) != RELOCK_OK)
        return -1;
    return relock_sentinels_attach(&server, &options, "id");
}

static int end(void **state)
{
    (void)state;
    relock_server_deinit(&server);
    for (int i = 0; i < FAKES; i++)
        fake_server_stop(&fakes[i].server);
    places_end();
    lines = log_free(lines);
    return 0;
}

static void answer_with(int i, const char *answer)
{
    atomic_store(&fakes[i].answer, answer);
}

/* Returns the port of the master, or the result of a lookup that has failed. */
static int look_up(void)
{
    struct relock_lookup *lookup;
    struct pollfd pollfd = {.events = POLLIN};
    const char *why = "";
    int r;

    assert_int_equal(relock_lookup_new(server.resolver, &lookup, &why), RELOCK_OK);
    pollfd.fd = relock_lookup_fd(lookup);
    assert_int_equal(poll(&pollfd, 1, (int)slow_ms(2 * SOON_MS)), 1);
    r = relock_lookup_take(lookup, &found.addresses, &why);
    snprintf(found.why, sizeof(found.why), "%s", why);
    relock_lookup_free(lookup);
    if (r != RELOCK_OK)
        return r;
    return ntohs(((const struct sockaddr_in *)&found.addresses.at[0].address)->sin_port);
}

/* ---- tests --------------------------------------------------------------------------------- */

static void the_master_is_the_one_that_a_sentinel_names(void **state)
{
    (void)state;

    assert_int_equal(look_up(), 7000);
    assert_int_equal(look_up(), 7000);
    assert_int_equal(log_count(lines, "/shop: the master is 127.0.0.1:7000, says the sentinel"), 1);
    answer_with(0, ADDRESS("7001"));
    assert_int_equal(look_up(), 7001);
    assert_int_equal(log_count(lines, "the master is 127.0.0.1:7001"), 1);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 0);
}

static void a_refusal_of_all_says_why(void **state)
{
    static const struct {
        const char *answer;
        int result;
        const char *why;
    } cases[] = {
        {NO_MASTER, RELOCK_E_SERVER, "it knows no master of this name"},
        {"$-1\r\n", RELOCK_E_SERVER, "it knows no master of this name"},
        {"+OK\r\n", RELOCK_E_SERVER, "it does not answer with an address"},
        {":1\r\n", RELOCK_E_SERVER, "it does not answer with an address"},
        {"*1\r\n$1\r\nh\r\n", RELOCK_E_SERVER, "it does not answer with an address"},
        {"*2\r\n$0\r\n\r\n$4\r\n7000\r\n", RELOCK_E_SERVER, "the host of the master is invalid"},
        {"*2\r\n$1\r\nh\r\n$4\r\n 700\r\n", RELOCK_E_SERVER, "the port of the master is invalid"},
        {"*2\r\n$1\r\nh\r\n$4\r\n700x\r\n", RELOCK_E_SERVER, "the port of the master is invalid"},
        {ADDRESS("0000"), RELOCK_E_SERVER, "the port of the master is invalid"},
        {"*2\r\n$1\r\nh\r\n$5\r\n65536\r\n", RELOCK_E_SERVER, "the port of the master is invalid"},
        {"-NOPERM no permissions\r\n", RELOCK_E_AUTH, "NOPERM"},
        {"-IDONTKNOW me neither\r\n", RELOCK_E_SERVER, "IDONTKNOW"},
    };

    (void)state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        answer_with(0, cases[i].answer);
        answer_with(1, cases[i].answer);
        assert_int_equal(look_up(), cases[i].result);
        assert_non_null(strstr(found.why, "sentinel 127.0.0.1:"));
        assert_non_null(strstr(found.why, cases[i].why));
    }
}

static void the_next_is_asked_after_a_refusal_and_first_from_then_on(void **state)
{
    (void)state;

    answer_with(0, NO_MASTER);
    assert_int_equal(look_up(), 7000);
    assert_int_equal(look_up(), 7000);
    assert_int_equal(atomic_load(&fakes[0].n_asked), 1);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 2);
}

static void the_next_is_asked_first_after_an_answer_of_no_use(void **state)
{
    (void)state;

    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(), 7000);
    relock_resolver_distrust(server.resolver);
    assert_int_equal(look_up(), 7001);
    assert_int_equal(atomic_load(&fakes[0].n_asked), 1);
}

/* The one that is down may know the master. */
static void a_refusal_and_no_answer_is_no_refusal(void **state)
{
    (void)state;

    answer_with(0, NO_MASTER);
    fake_server_stop(&fakes[1].server);
    assert_int_equal(look_up(), RELOCK_E_CONN);
    assert_non_null(strstr(found.why, "it knows no master"));
}

static void a_sentinel_that_names_the_old_master_is_passed_over(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    answer_with(1, ADDRESS("7001"));
    relock_sentinels_leave(server.sentinels, &old);
    assert_int_equal(look_up(), 7001);
    /* It is the master again, or the report was wrong. */
    answer_with(1, ADDRESS("7000"));
    assert_int_equal(look_up(), 7000);
}

/* From 7000 to 7001 and back, and one that reports the first of these after the second. */
static void a_late_report_counts_until_no_sentinel_confirms_it(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    relock_sentinels_leave(server.sentinels, &old);
    assert_int_equal(look_up(), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
}

static void a_report_counts_while_a_sentinel_does_not_tell(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    relock_sentinels_leave(server.sentinels, &old);
    answer_with(1, NO_MASTER);
    assert_int_equal(look_up(), 7000);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(), 7001);
}

/* The sentinels were asked before it. */
static void a_report_that_comes_while_they_are_asked_counts(void **state)
{
    struct relock_succession *succession = relock_sentinels_succession(server.sentinels);
    const struct relock_peer old = {"127.0.0.1", "7000"};
    const struct relock_master answer = {.host = "127.0.0.1", .port = 7000, .epoch = 1};
    unsigned n_reports = relock_succession_reports(succession);

    (void)state;

    relock_sentinels_leave(server.sentinels, &old);
    relock_succession_agree(succession, &answer, n_reports);
    assert_true(relock_succession_lags(succession, &answer));
    relock_succession_agree(succession, &answer, n_reports + 1);
    assert_false(relock_succession_lags(succession, &answer));
}

/* It may have missed a failover of which no sentinel has told this client. */
static void a_sentinel_with_an_older_configuration_is_passed_over(void **state)
{
    (void)state;

    atomic_store(&fakes[0].epoch, 2);
    assert_int_equal(look_up(), 7000);
    answer_with(1, ADDRESS("7001"));
    relock_resolver_distrust(server.resolver);
    assert_int_equal(look_up(), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
}

/* The sentinels were set up anew. */
static void if_all_have_an_older_configuration_the_newest_counts(void **state)
{
    (void)state;

    atomic_store(&fakes[0].epoch, 5);
    assert_int_equal(look_up(), 7000);
    atomic_store(&fakes[0].epoch, 1);
    atomic_store(&fakes[1].epoch, 2);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(), 7001);
    assert_int_equal(look_up(), 7001);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 2);
}

/* ---- connections to a master that is replaced ---------------------------------------------- */

/* All sentinels name a server there that hangs. */
static struct relock_peer master_that_hangs(void)
{
    static char port[8];
    int place = places_hang();

    sscanf(places_text(place), "127.0.0.1 %7s", port);
    snprintf(answer_of_place, sizeof(answer_of_place), "*2\r\n$9\r\n127.0.0.1\r\n$%zu\r\n%s\r\n",
             strlen(port), port);
    for (int i = 0; i < FAKES; i++)
        answer_with(i, answer_of_place);
    return (struct relock_peer){"127.0.0.1", port};
}

/* Until it has sent its attempt. */
static void begin_to_connect(struct relock_sync_conn *conn)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    while (conn->dial.state != RELOCK_DIAL_CONNECTING && now_ms() < deadline_ms)
        assert_int_equal(relock_sync_conn_connect(conn, relock_clock_in(1)), RELOCK_AGAIN);
    assert_int_equal(conn->dial.state, RELOCK_DIAL_CONNECTING);
}

static void *report(void *old)
{
    relock_sentinels_leave(server.sentinels, old);
    return NULL;
}

/* Whether the thread waits already or not. */
static void an_attempt_to_connect_to_the_old_master_ends_with_the_report(void **state)
{
    struct relock_peer old = master_that_hangs();
    struct relock_sync_conn conn;
    pthread_t thread;

    (void)state;

    relock_sync_conn_init(&conn, &server);
    begin_to_connect(&conn);
    assert_int_equal(pthread_create(&thread, NULL, report, &old), 0);
    assert_int_equal(relock_sync_conn_connect(&conn, RELOCK_NEVER), RELOCK_E_CONN);
    pthread_join(thread, NULL);
    assert_non_null(strstr(conn.wire.why, "another server is the master now"));
    relock_sync_conn_deinit(&conn);
}

static void addresses_found_before_a_report_are_outdated(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "6999"};

    (void)state;

    (void)look_up();
    assert_int_equal(found.addresses.n_switches, 0);
    relock_sentinels_leave(server.sentinels, &old);
    (void)look_up();
    assert_int_equal(found.addresses.n_switches, 1);
}

#define SENTINELS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(the_master_is_the_one_that_a_sentinel_names),
        SENTINELS_TEST(a_refusal_of_all_says_why),
        SENTINELS_TEST(the_next_is_asked_after_a_refusal_and_first_from_then_on),
        SENTINELS_TEST(the_next_is_asked_first_after_an_answer_of_no_use),
        SENTINELS_TEST(a_refusal_and_no_answer_is_no_refusal),
        SENTINELS_TEST(a_sentinel_that_names_the_old_master_is_passed_over),
        SENTINELS_TEST(a_late_report_counts_until_no_sentinel_confirms_it),
        SENTINELS_TEST(a_report_counts_while_a_sentinel_does_not_tell),
        SENTINELS_TEST(a_report_that_comes_while_they_are_asked_counts),
        SENTINELS_TEST(a_sentinel_with_an_older_configuration_is_passed_over),
        SENTINELS_TEST(if_all_have_an_older_configuration_the_newest_counts),
        SENTINELS_TEST(an_attempt_to_connect_to_the_old_master_ends_with_the_report),
        SENTINELS_TEST(addresses_found_before_a_report_are_outdated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
