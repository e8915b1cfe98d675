/* What a test takes for a time limit when a player does not answer: support/player.h. */
#include "support/fixture.h"
#include "support/player.h"

#define AT_ONCE_MS 20

/* It answers its first order at once, and the second one never. */
static struct player *start(void)
{
    static const char *const argv[] = {
        "sh", "-c", "echo ready; read order; echo 1 ok; read order; read end", NULL};

    return player_start(argv);
}

static void an_answer_is_in_time(void **state)
{
    struct player *player = start();

    (void)state;
    assert_string_equal(player_do(player, "ann", "lock orders"), "ok");
    assert_string_equal(player_answer_within(player, 1, 0), "ok");
    assert_false(late_was());
    player_end(player);
}

static void an_answer_that_does_not_come_is_late(void **state)
{
    struct player *player = start();
    unsigned order;

    (void)state;
    (void)player_do(player, "ann", "lock orders");
    order = player_begin(player, "ann", "lock orders");
    (void)player_is_busy(player, order); /* that was no wait */
    assert_false(late_was());
    (void)player_answer_within(player, order, AT_ONCE_MS);
    assert_true(late_was());
    player_end(player);
}

static void a_player_that_is_gone_is_not_late(void **state)
{
    struct player *player = start();
    unsigned order;

    (void)state;
    (void)player_do(player, "ann", "lock orders");
    order = player_begin(player, "ann", "lock orders");
    player_kill(player);
    assert_string_equal(player_answer(player, order), "");
    assert_false(late_was());
    player_end(player);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_is_in_time),
        cmocka_unit_test(an_answer_that_does_not_come_is_late),
        cmocka_unit_test(a_player_that_is_gone_is_not_late),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
