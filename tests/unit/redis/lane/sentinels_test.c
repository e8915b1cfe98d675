/* The answers of sentinels, and which of them is asked. */
#include "fake_sentinels.h"

#include "base/status.h"
#include "redis/lane/private.h"
#include "redis/lane/sentinels.h"
#include "redis/server/peer.h"

#include <string.h>

#define NO_MASTER "*-1\r\n"

static struct relock_found found;

static void the_master_is_the_one_that_a_sentinel_names(void **state)
{
    (void)state;

    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(log_count(lines, "/shop: the master is 127.0.0.1:7000, says the sentinel"), 1);
    answer_with(0, ADDRESS("7001"));
    assert_int_equal(look_up(&found), 7001);
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
        assert_int_equal(look_up(&found), cases[i].result);
        assert_non_null(strstr(found.why, "sentinel 127.0.0.1:"));
        assert_non_null(strstr(found.why, cases[i].why));
    }
}

static void the_next_is_asked_after_a_refusal_and_first_from_then_on(void **state)
{
    (void)state;

    answer_with(0, NO_MASTER);
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(atomic_load(&fakes[0].n_asked), 1);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 2);
}

static void the_next_is_asked_first_after_an_answer_of_no_use(void **state)
{
    (void)state;

    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(&found), 7000);
    relock_resolver_distrust(server.resolver);
    assert_int_equal(look_up(&found), 7001);
    assert_int_equal(atomic_load(&fakes[0].n_asked), 1);
}

/* The one that is down may know the master. */
static void a_refusal_and_no_answer_is_no_refusal(void **state)
{
    (void)state;

    answer_with(0, NO_MASTER);
    fake_server_stop(&fakes[1].server);
    assert_int_equal(look_up(&found), RELOCK_E_CONN);
    assert_non_null(strstr(found.why, "it knows no master"));
}

static void a_sentinel_that_names_the_old_master_is_passed_over(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    answer_with(1, ADDRESS("7001"));
    relock_sentinels_retire(server.sentinels, &old);
    assert_int_equal(look_up(&found), 7001);
    /* It is the master again, or the report was wrong. */
    answer_with(1, ADDRESS("7000"));
    assert_int_equal(look_up(&found), 7000);
}

/* From 7000 to 7001 and back, and one that reports the first of these after the second. */
static void a_late_report_counts_until_no_sentinel_confirms_it(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    relock_sentinels_retire(server.sentinels, &old);
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
}

static void a_report_counts_while_a_sentinel_does_not_tell(void **state)
{
    const struct relock_peer old = {"127.0.0.1", "7000"};

    (void)state;

    relock_sentinels_retire(server.sentinels, &old);
    answer_with(1, NO_MASTER);
    assert_int_equal(look_up(&found), 7000);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(&found), 7001);
}

/* The sentinels were asked before it. */
static void a_report_that_comes_while_they_are_asked_counts(void **state)
{
    struct relock_succession *succession = relock_sentinels_succession(server.sentinels);
    const struct relock_peer old = {"127.0.0.1", "7000"};
    const struct relock_master answer = {.host = "127.0.0.1", .port = 7000, .epoch = 1};
    unsigned n_reports = relock_succession_reports(succession);

    (void)state;

    relock_sentinels_retire(server.sentinels, &old);
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
    assert_int_equal(look_up(&found), 7000);
    answer_with(1, ADDRESS("7001"));
    relock_resolver_distrust(server.resolver);
    assert_int_equal(look_up(&found), 7000);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 1);
}

/* The sentinels were set up anew. */
static void if_all_have_an_older_configuration_the_newest_counts(void **state)
{
    (void)state;

    atomic_store(&fakes[0].epoch, 5);
    assert_int_equal(look_up(&found), 7000);
    atomic_store(&fakes[0].epoch, 1);
    atomic_store(&fakes[1].epoch, 2);
    answer_with(1, ADDRESS("7001"));
    assert_int_equal(look_up(&found), 7001);
    assert_int_equal(look_up(&found), 7001);
    assert_int_equal(atomic_load(&fakes[1].n_asked), 2);
}

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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
