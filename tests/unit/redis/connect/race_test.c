/* Connecting to several addresses: which begin when, and which wins. */
#include "redis/connect/connect.h"
#include "redis/connect/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "support/child.h"
#include "support/late.h"
#include "support/leaks.h"
#include "support/wait.h"
#include "unit/common/places.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#define NOW_MS 1000000
#define LIMIT_MS (NOW_MS + 10000)

static struct relock_race race;
static struct leaks before;
static int winner;

static int begin(void **state)
{
    (void)state;
    before = leaks_now();
    relock_race_init(&race, NULL);
    winner = -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    child_end_all();
    relock_race_end(&race);
    places_end();
    if (winner >= 0)
        close(winner);
    return leaks_none_since(&before) ? 0 : -1;
}

static void race_to(int place)
{
    unsigned i = race.addresses.n++;

    race.addresses.at[i].address = places_address(place, &race.addresses.at[i].len);
}

static int step_at(uint64_t now)
{
    return relock_race_step(&race, now, LIMIT_MS, &winner);
}

static bool has_news(uint64_t within_ms)
{
    struct pollfd pollfd = {.fd = race.fd, .events = POLLIN};

    return poll(&pollfd, 1, (int)slow_ms(within_ms)) == 1;
}

static void is_won_by(int place)
{
    assert_true(has_news(SOON_MS));
    assert_int_equal(step_at(NOW_MS + 1), RELOCK_OK);
    assert_true(places_is_at(place, winner));
    assert_int_equal(race.fd, -1);
    assert_int_equal(race.n_sockets, 0);
}

static void an_address_that_answers_has_no_rival(void **state)
{
    int first = places_listen(), second = places_listen();

    (void)state;

    race_to(first);
    race_to(second);
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    is_won_by(first);
    assert_false(places_had_visitor(second));
}

static void an_address_without_an_answer_has_a_rival_after_a_while(void **state)
{
    int hangs = places_hang(), answers = places_listen();

    (void)state;

    race_to(hangs);
    race_to(answers);
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_true(race.deadline_ms == NOW_MS + 250);
    assert_int_equal(step_at(NOW_MS + 249), RELOCK_AGAIN);
    assert_false(has_news(0));
    assert_int_equal(race.n_sockets, 1);
    assert_int_equal(step_at(NOW_MS + 250), RELOCK_AGAIN);
    assert_int_equal(race.n_sockets, 2);
    assert_true(race.deadline_ms == LIMIT_MS);
    is_won_by(answers);
}

/* The system repeats the unanswered attempt after a second. */
static void an_attempt_with_rivals_can_still_win(void **state)
{
    int late = places_hang(), hangs = places_hang();

    (void)state;

    race_to(late);
    race_to(hangs);
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_int_equal(step_at(NOW_MS + 250), RELOCK_AGAIN);
    places_let_in(late);
    is_won_by(late);
}

static void a_refusal_is_followed_by_the_next_attempt_at_once(void **state)
{
    int refuses = places_refuse(), hangs = places_hang(), answers = places_listen();

    (void)state;

    race_to(hangs);
    race_to(refuses);
    race_to(answers);
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_int_equal(step_at(NOW_MS + 250), RELOCK_AGAIN);
    assert_true(has_news(SOON_MS));
    assert_int_equal(step_at(NOW_MS + 250), RELOCK_AGAIN);
    assert_int_equal(race.n_sockets, 2);
    assert_int_equal(race.err, ECONNREFUSED);
    is_won_by(answers);
}

static void a_short_time_is_shared(void **state)
{
    int hangs = places_hang();

    (void)state;

    for (int i = 0; i < 3; i++)
        race_to(hangs);
    assert_int_equal(relock_race_step(&race, NOW_MS, NOW_MS + 90, &winner), RELOCK_AGAIN);
    assert_true(race.deadline_ms == NOW_MS + 30);
    assert_int_equal(relock_race_step(&race, NOW_MS + 30, NOW_MS + 90, &winner), RELOCK_AGAIN);
    assert_true(race.deadline_ms == NOW_MS + 60);
    assert_int_equal(relock_race_step(&race, NOW_MS + 60, NOW_MS + 90, &winner), RELOCK_AGAIN);
    assert_true(race.deadline_ms == NOW_MS + 90);
}

static void a_race_without_an_answer_ends_at_its_limit(void **state)
{
    (void)state;

    race_to(places_hang());
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_true(race.deadline_ms == LIMIT_MS);
    assert_int_equal(step_at(LIMIT_MS - 1), RELOCK_AGAIN);
    assert_int_equal(step_at(LIMIT_MS), RELOCK_E_CONN);
    assert_int_equal(race.err, 0);
    assert_int_equal(race.fd, -1);
}

static void a_race_of_refusals_ends_with_the_last(void **state)
{
    int r;

    (void)state;

    race_to(places_refuse());
    race_to(places_refuse());
    for (r = step_at(NOW_MS); r == RELOCK_AGAIN; r = step_at(NOW_MS))
        assert_true(has_news(SOON_MS));
    assert_int_equal(r, RELOCK_E_CONN);
    assert_int_equal(race.err, ECONNREFUSED);
    assert_int_equal(race.fd, -1);
}

static void the_losers_can_race_again_without_the_winner(void **state)
{
    int loses = places_hang(), wins = places_listen(), untried = places_listen();

    (void)state;

    race_to(loses);
    race_to(wins);
    race_to(untried);
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_int_equal(step_at(NOW_MS + 250), RELOCK_AGAIN);
    is_won_by(wins);
    close(winner);
    winner = -1;
    assert_int_equal(race.addresses.n, 2);
    assert_int_equal(step_at(NOW_MS + 500), RELOCK_AGAIN);
    assert_false(has_news(0));
    assert_int_equal(step_at(NOW_MS + 750), RELOCK_AGAIN);
    is_won_by(untried);
}

static int stays(struct child *parent, void *arg)
{
    (void)arg;
    return child_await(parent) ? 0 : 1;
}

static int connected_to_itself(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, len), 0);
    return fd;
}

/* The system does this by chance if nobody listens at a port that it may give to clients. */
static void a_socket_that_is_connected_to_itself_has_failed(void **state)
{
    int to_itself = connected_to_itself();

    (void)state;

    race_to(places_hang());
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_int_equal(dup2(to_itself, race.sockets[0]), race.sockets[0]);
    close(to_itself);
    assert_int_equal(step_at(NOW_MS + 1), RELOCK_E_CONN);
    assert_int_equal(race.err, ECONNREFUSED);
}

/* The child has the same sockets and the same set. */
static void a_forked_child_keeps_no_failed_attempt_in_the_set(void **state)
{
    struct child *child;

    (void)state;

    race_to(places_refuse());
    race_to(places_hang());
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    child = child_start(stays, NULL);
    assert_true(has_news(SOON_MS));
    assert_int_equal(step_at(NOW_MS), RELOCK_AGAIN);
    assert_int_equal(race.n_sockets, 1);
    assert_false(has_news(0));
    assert_true(child_send(child, 1));
    assert_int_equal(child_wait(child, SOON_MS), 0);
}

#define RACE_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RACE_TEST(an_address_that_answers_has_no_rival),
        RACE_TEST(an_address_without_an_answer_has_a_rival_after_a_while),
        RACE_TEST(an_attempt_with_rivals_can_still_win),
        RACE_TEST(a_refusal_is_followed_by_the_next_attempt_at_once),
        RACE_TEST(a_short_time_is_shared),
        RACE_TEST(a_race_without_an_answer_ends_at_its_limit),
        RACE_TEST(a_race_of_refusals_ends_with_the_last),
        RACE_TEST(the_losers_can_race_again_without_the_winner),
        RACE_TEST(a_socket_that_is_connected_to_itself_has_failed),
        RACE_TEST(a_forked_child_keeps_no_failed_attempt_in_the_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
