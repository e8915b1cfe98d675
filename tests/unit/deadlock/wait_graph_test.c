/* The findings of looks, and what they prove. */
#include "deadlock/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char form[] = "hash";
static struct relock_graph graph;

static int begin(void **state)
{
    (void)state;
    relock_graph_clear(&graph);
    return 0;
}

static size_t lock(const char *name)
{
    return relock_graph_add_lock(&graph, name, strlen(name), form, 0);
}

/* The owner whose client is `id` waits for this lock. */
static size_t wait_for(const char *name, const char *id, uint64_t at_us)
{
    return relock_graph_add_wait(&graph, id, 1, at_us, lock(name));
}

/* .. and its hold of that number is on this lock, as a hash with this beat says. */
static void hold_of(const char *name, const char *number, size_t wait, uint64_t beat)
{
    const char *id = graph.waits[wait].id;
    size_t at = relock_graph_add_hold(&graph, lock(name), id, strlen(id), number, strlen(number));

    graph.holds[at].wait = wait;
    graph.holds[at].beat = beat;
}

static void hold(const char *name, const char *number, size_t wait)
{
    hold_of(name, number, wait, 0);
}

/* One look: "us" holds a and waits for b; "them" holds b and waits for a. Returns our wait. */
static size_t look(const char *their_number, uint64_t their_serial, uint64_t their_at_us,
                   uint64_t their_beat)
{
    size_t us, them;

    relock_graph_clear(&graph);
    us = wait_for("b", "us", 20);
    them = wait_for("a", "them", their_at_us);
    graph.waits[them].serial = their_serial;
    hold("a", "7", us);
    hold_of("b", their_number, them, their_beat);
    return us;
}

static void the_youngest_wait_of_a_cycle_is_its_victim(void **state)
{
    struct relock_proof *proof;
    size_t us = look("9", 1, 10, 1);

    (void)state;
    proof = relock_graph_search(&graph, us);
    assert_non_null(proof);
    assert_int_equal(proof->n, 2);
    free(proof);
    assert_null(relock_graph_search(&graph, relock_graph_find(&graph, "them", 1)));
}

static void of_two_waits_of_the_same_time_one_is_the_victim(void **state)
{
    struct relock_proof *ours, *theirs;
    size_t us = look("9", 1, 20, 1);

    (void)state;
    ours = relock_graph_search(&graph, us);
    theirs = relock_graph_search(&graph, relock_graph_find(&graph, "them", 1));
    assert_non_null(ours); /* "us" is greater than "them" */
    assert_null(theirs);
    free(ours);
}

static void a_chain_that_ends_is_no_cycle(void **state)
{
    size_t us = wait_for("b", "us", 20);

    (void)state;
    hold("a", "7", us);
    assert_null(relock_graph_search(&graph, us));
    hold("b", "9", wait_for("c", "them", 10));
    assert_null(relock_graph_search(&graph, us));
}

/* A hold that is left behind on the lock for which its owner waits. */
static void an_owner_does_not_wait_for_itself(void **state)
{
    size_t us = wait_for("b", "us", 20);

    (void)state;
    hold("b", "7", us);
    assert_null(relock_graph_search(&graph, us));
}

static void each_of_several_readers_is_followed(void **state)
{
    size_t us = wait_for("shelf", "us", 20);
    struct relock_proof *proof;

    (void)state;
    hold("a", "7", us);
    hold("shelf", "8", wait_for("elsewhere", "one", 10));
    hold("shelf", "9", wait_for("a", "two", 11));
    proof = relock_graph_search(&graph, us);
    assert_non_null(proof);
    assert_string_equal(proof->steps[0].field, "9");
    free(proof);
}

/* Returns what the third look says. */
static enum relock_proof_state prove_at(uint64_t at_us, uint64_t beat, const char *number,
                                        uint64_t serial)
{
    struct relock_proof *proof = relock_graph_search(&graph, look("9", 1, 10, 4));
    enum relock_proof_state state;

    assert_non_null(proof);
    assert_int_equal(relock_proof_check(proof, &graph, look("9", 1, 10, 5)), RELOCK_PROOF_OPEN);
    state = relock_proof_check(proof, &graph, look(number, serial, at_us, beat));
    free(proof);
    return state;
}

static enum relock_proof_state prove(uint64_t beat, const char *number, uint64_t serial)
{
    return prove_at(10, beat, number, serial);
}

static void two_beats_after_the_second_look_prove_a_cycle(void **state)
{
    (void)state;
    assert_int_equal(prove(5, "9", 1), RELOCK_PROOF_OPEN);
    assert_int_equal(prove(6, "9", 1), RELOCK_PROOF_OPEN);
    assert_int_equal(prove(7, "9", 1), RELOCK_PROOF_DONE);
}

/* It was deleted in between, so its beats say nothing about those of the one before. */
static void beats_of_another_hash_prove_nothing(void **state)
{
    (void)state;
    assert_int_equal(prove_at(11, 7, "9", 1), RELOCK_PROOF_GONE);
}

static void another_hold_or_another_wait_is_another_cycle(void **state)
{
    (void)state;
    assert_int_equal(prove(7, "10", 1), RELOCK_PROOF_GONE);
    assert_int_equal(prove(7, "9", 2), RELOCK_PROOF_GONE);
}

static void the_log_says_who_waits_for_what(void **state)
{
    size_t us = look("9", 1, 10, 4);
    struct relock_proof *proof = relock_graph_search(&graph, us);
    char text[256];

    (void)state;
    assert_non_null(proof);
    relock_proof_explain(proof, &graph, us, text, sizeof(text));
    assert_string_equal(text, "this owner holds a, for which client them waits, who holds b; "
                              "release this owner's locks and start again");
    free(proof);
}

/* A look reads some holds of an owner in one hash and some in another. */
static void a_wait_is_proved_by_the_beats_of_the_hash_that_named_the_hold(void **state)
{
    struct relock_proof *proof = relock_graph_search(&graph, look("9", 1, 10, 4));
    size_t us, them;

    (void)state;
    assert_non_null(proof);
    assert_int_equal(relock_proof_check(proof, &graph, look("9", 1, 10, 5)), RELOCK_PROOF_OPEN);
    us = look("9", 1, 10, 5);
    them = relock_graph_find(&graph, "them", 1);
    hold_of("elsewhere", "10", them, 50);
    assert_int_equal(relock_proof_check(proof, &graph, us), RELOCK_PROOF_OPEN);
    free(proof);
}

/* A client publishes its waits with a new time after a hash was deleted, so an older hash that
 * comes late is told by its time. */
static void a_wait_with_another_time_is_of_a_late_hash(void **state)
{
    size_t them = wait_for("a", "them", 10);

    (void)state;
    assert_int_equal(relock_graph_add_wait(&graph, "them", 1, 10, lock("a")), them);
    assert_int_equal(relock_graph_add_wait(&graph, "them", 1, 9, lock("a")), RELOCK_GRAPH_NONE);
    assert_int_equal(relock_graph_add_wait(&graph, "them", 1, 10, lock("b")), RELOCK_GRAPH_NONE);
    assert_int_equal(graph.n_waits, 1);
}

/* ---- waits for permits ----------------------------------------------------------------------- */

/* The owner waits for `need` permits of a semaphore that has `n_all`. */
static size_t wait_for_permits(const char *name, const char *id, uint64_t at_us, uint64_t need,
                               uint64_t n_all)
{
    size_t wait = wait_for(name, id, at_us);

    graph.waits[wait].need = need;
    graph.locks[graph.waits[wait].lock].n_all = n_all;
    return wait;
}

static void hold_permits(const char *name, const char *number, size_t wait, uint64_t n)
{
    hold_of(name, number, wait, 1);
    graph.holds[graph.n_holds - 1].n = n;
}

static size_t n_steps_of(size_t wait)
{
    struct relock_proof *proof = relock_graph_search(&graph, wait);
    size_t n = proof ? proof->n : 0;

    free(proof);
    return n;
}

/* "us" holds a and wants `need` of `n_all` permits; "them" holds `n` of these and wants a. */
static size_t look_at_permits(uint64_t need, uint64_t n_all, uint64_t n)
{
    size_t us, them;

    relock_graph_clear(&graph);
    us = wait_for_permits("permits", "us", 20, need, n_all);
    them = wait_for("a", "them", 10);
    hold("a", "7", us);
    hold_permits("permits", "9", them, n);
    return us;
}

static void a_wait_for_permits_is_blocked_if_too_few_others_are_left(void **state)
{
    (void)state;
    assert_int_equal(n_steps_of(look_at_permits(1, 3, 3)), 2);
    assert_int_equal(n_steps_of(look_at_permits(2, 3, 2)), 2);
    assert_int_equal(n_steps_of(look_at_permits(1, 3, 2)), 0); /* one is free, or will be */
    assert_int_equal(n_steps_of(look_at_permits(4, 3, 3)), 0); /* it is refused by itself */
    assert_int_equal(n_steps_of(look_at_permits(1, 0, 3)), 0); /* their number is not known */
}

static void an_owner_may_wait_for_its_own_permits(void **state)
{
    size_t us = wait_for_permits("permits", "us", 20, 2, 2);

    (void)state;
    hold_permits("permits", "7", us, 1);
    assert_int_equal(n_steps_of(us), 1);
    graph.waits[us].need = 1;
    assert_int_equal(n_steps_of(us), 0);
}

/* The proof has all of them, and the wait goes on if one is gone. */
static void all_owners_of_permits_have_to_be_blocked(void **state)
{
    size_t us = wait_for_permits("permits", "us", 20, 1, 2);
    size_t one = wait_for("a", "one", 10), two = wait_for("a", "two", 11);

    (void)state;
    hold("a", "7", us);
    hold_permits("permits", "8", one, 1);
    assert_int_equal(n_steps_of(us), 0);
    hold_permits("permits", "9", two, 1);
    assert_int_equal(n_steps_of(us), 3); /* "a" is in the way of both */
    graph.waits[two].is_over = true;
    assert_int_equal(n_steps_of(us), 0);
}

/* Each owner has one permit of as many as there are owners, and wants another one. All holds are in
 * the way of each wait. */
static size_t look_at_a_crowd(unsigned n)
{
    size_t last = 0;

    relock_graph_clear(&graph);
    for (unsigned i = 0; i < n; i++) {
        char id[16];

        snprintf(id, sizeof(id), "%u", i);
        last = wait_for_permits("permits", id, 10 + i, 1, n);
        hold_permits("permits", id, last, 1);
    }
    return last;
}

static void a_crowd_that_wants_more_permits_is_a_deadlock(void **state)
{
    size_t victim = look_at_a_crowd(256);
    struct relock_proof *proof = relock_graph_search(&graph, victim);
    char text[256];

    (void)state;
    assert_non_null(proof);
    assert_int_equal(proof->n, 256);
    assert_int_equal(n_steps_of(0), 0);
    victim = look_at_a_crowd(256);
    assert_int_equal(relock_proof_check(proof, &graph, victim), RELOCK_PROOF_OPEN);
    relock_proof_explain(proof, &graph, victim, text, sizeof(text));
    assert_string_equal(text,
                        "this owner holds permits; release this owner's locks and start again");
    victim = look_at_a_crowd(256);
    graph.holds[100].n = 0;
    assert_int_equal(relock_proof_check(proof, &graph, victim), RELOCK_PROOF_GONE);
    free(proof);
}

/* "three" is behind the deadlock of "us" and "them", though it is the youngest. */
static void a_wait_behind_a_deadlock_is_not_its_victim(void **state)
{
    size_t us = look_at_permits(1, 1, 1), three = wait_for("a", "three", 30);

    (void)state;
    hold("b", "1", three);
    assert_int_equal(n_steps_of(three), 0);
    assert_int_equal(n_steps_of(us), 2);
}

/* Further looks see the number of permits, and how many each hold has, anew. */
static void more_permits_end_a_proof(void **state)
{
    struct relock_proof *proof = relock_graph_search(&graph, look_at_permits(1, 2, 2));

    (void)state;
    assert_non_null(proof);
    assert_int_equal(relock_proof_check(proof, &graph, look_at_permits(1, 2, 2)),
                     RELOCK_PROOF_OPEN);
    assert_int_equal(relock_proof_check(proof, &graph, look_at_permits(1, 3, 2)),
                     RELOCK_PROOF_GONE);
    assert_int_equal(relock_proof_check(proof, &graph, look_at_permits(1, 2, 1)),
                     RELOCK_PROOF_GONE);
    free(proof);
}

/* ---- any graph ------------------------------------------------------------------------------- */

#define GRAPHS 20000
#define OWNERS_MOST 7
#define LOCKS_OF_A_GRAPH 4 /* every other one is a semaphore; locks have readers */

static unsigned drawn;

static unsigned draw(unsigned n)
{
    drawn = drawn * 1103515245 + 12345;
    return (drawn >> 16) % n;
}

static void draw_hold(size_t wait)
{
    unsigned which = draw(LOCKS_OF_A_GRAPH), n = which % 2 ? 1 + draw(2) : 1;
    char name[16], number[16];

    snprintf(name, sizeof(name), "%u", which);
    snprintf(number, sizeof(number), "%zu", graph.n_holds);
    hold_permits(name, number, wait, n);
    if (which % 2)
        graph.locks[graph.holds[graph.n_holds - 1].lock].n_all += n;
}

static void draw_graph(void)
{
    unsigned n = 2 + draw(OWNERS_MOST - 1);
    char name[16], id[16];

    relock_graph_clear(&graph);
    for (unsigned i = 0; i < LOCKS_OF_A_GRAPH; i++) {
        size_t at;

        snprintf(name, sizeof(name), "%u", i);
        at = lock(name);
        graph.locks[at].n_all = i % 2 ? draw(2) : 0;
    }
    for (unsigned i = 0; i < n; i++) {
        unsigned which = draw(LOCKS_OF_A_GRAPH);
        size_t wait;

        snprintf(name, sizeof(name), "%u", which);
        snprintf(id, sizeof(id), "%u", i);
        wait = wait_for(name, id, 1 + draw(20));
        graph.waits[wait].need = which % 2 ? 1 + draw(2) : 0;
    }
    for (unsigned i = 0; i < n; i++)
        for (unsigned n_holds = 1 + draw(2); n_holds > 0; n_holds--)
            draw_hold(i);
}

/* Whether this wait stays while the holds of blocked owners do. By the definition, without what the
 * search remembers. */
static bool stays(const bool *blocked, size_t wait)
{
    const struct relock_graph_wait *of = &graph.waits[wait];
    uint64_t n_all = graph.locks[of->lock].n_all, kept = 0;

    for (size_t i = 0; i < graph.n_holds; i++) {
        const struct relock_graph_hold *at = &graph.holds[i];

        if (at->lock == of->lock && blocked[at->wait] && (of->need > 0 || at->wait != wait))
            kept += at->n;
    }
    return of->need == 0 ? kept > 0 : of->need <= n_all && n_all - kept < of->need;
}

/* Which waits are blocked for ever. Returns how many. */
static unsigned block(bool blocked[OWNERS_MOST])
{
    unsigned n = 0, n_before;

    for (size_t i = 0; i < graph.n_waits; i++)
        n += blocked[i];
    do {
        n_before = n;
        for (size_t i = 0; i < graph.n_waits; i++)
            if (blocked[i] && !stays(blocked, i)) {
                blocked[i] = false;
                n--;
            }
    } while (n < n_before);
    return n;
}

static unsigned block_all(bool blocked[OWNERS_MOST])
{
    for (size_t i = 0; i < graph.n_waits; i++)
        blocked[i] = !graph.waits[i].is_over;
    return block(blocked);
}

/* The same if the younger waits are not there; nor this one itself, if `ends`. */
static void block_older(bool blocked[OWNERS_MOST], size_t wait, bool ends)
{
    for (size_t i = 0; i < graph.n_waits; i++) {
        uint64_t at_us = graph.waits[i].at_us, than_us = graph.waits[wait].at_us;

        blocked[i] = !graph.waits[i].is_over && (at_us < than_us || (at_us == than_us && i < wait));
    }
    blocked[wait] = !ends;
    block(blocked);
}

/* Whether it is a victim. Its proof is complete when all beats have grown by two. */
static bool is_proved(size_t wait)
{
    struct relock_proof *proof = relock_graph_search(&graph, wait);

    if (!proof)
        return false;
    assert_int_equal(relock_proof_check(proof, &graph, wait), RELOCK_PROOF_OPEN);
    for (size_t i = 0; i < graph.n_holds; i++)
        graph.holds[i].beat += 2;
    assert_int_equal(relock_proof_check(proof, &graph, wait), RELOCK_PROOF_DONE);
    free(proof);
    return true;
}

/* A victim that looks is refused. The hash of one whose client has died expires, and a wait may end
 * by itself: in the next look, that wait is over, too. Then another one is the victim of what is
 * left.
 */
static void of_each_deadlock_that_is_left_one_wait_is_the_victim(void **state)
{
    bool blocked[OWNERS_MOST];
    unsigned n_deadlocks = 0, n_further = 0;

    (void)state;
    for (unsigned i = 0; i < GRAPHS; i++) {
        unsigned n_over = 0;

        drawn = i;
        draw_graph();
        while (block_all(blocked) > 0) {
            size_t victims[OWNERS_MOST], n = 0;

            for (size_t wait = 0; wait < graph.n_waits; wait++)
                if (!graph.waits[wait].is_over && is_proved(wait))
                    victims[n++] = wait;
            assert_true(n > 0);
            for (size_t j = 0; j < n; j++) {
                block_older(blocked, victims[j], false);
                assert_true(blocked[victims[j]]);
                block_older(blocked, victims[j], true);
                assert_false(stays(blocked, victims[j])); /* else it is behind an older one */
            }
            graph.waits[victims[draw((unsigned)n)]].is_over = true;
            graph.is_thinned = false;
            n_over++;
        }
        for (size_t wait = 0; wait < graph.n_waits; wait++)
            assert_true(graph.waits[wait].is_over || n_steps_of(wait) == 0);
        n_deadlocks += n_over > 0;
        n_further += n_over > 1;
    }
    print_message("%u deadlocks, in %u several victims\n", n_deadlocks, n_further);
    assert_in_range(n_further, GRAPHS / 100, n_deadlocks);
}

static size_t ring(unsigned n)
{
    char name[16], id[16];
    size_t first = 0;

    relock_graph_clear(&graph);
    for (unsigned i = 0; i < n; i++) {
        size_t wait;

        snprintf(id, sizeof(id), "%u", i);
        snprintf(name, sizeof(name), "lock%u", (i + 1) % n);
        wait = wait_for(name, id, i == 0 ? 1000 : i);
        first = i == 0 ? wait : first;
        snprintf(name, sizeof(name), "lock%u", i);
        hold(name, "7", wait);
    }
    return first;
}

static void a_cycle_of_64_is_found_and_no_longer_one(void **state)
{
    struct relock_proof *proof = relock_graph_search(&graph, ring(RELOCK_GRAPH_STEPS));
    char text[256];

    (void)state;
    assert_non_null(proof);
    assert_int_equal(proof->n, RELOCK_GRAPH_STEPS);
    relock_proof_explain(proof, &graph, 0, text, sizeof(text));
    assert_non_null(strstr(text, "another lock of this cycle"));
    free(proof);
    assert_null(relock_graph_search(&graph, ring(RELOCK_GRAPH_STEPS + 1)));
}

static void a_graph_has_a_limit(void **state)
{
    char name[16];

    (void)state;
    for (unsigned i = 0; i < RELOCK_GRAPH_MOST; i++) {
        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(lock(name), i);
    }
    assert_int_equal(lock("5"), 5);
    assert_int_equal(lock("more"), RELOCK_GRAPH_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_youngest_wait_of_a_cycle_is_its_victim, begin, begin),
        cmocka_unit_test_setup_teardown(of_two_waits_of_the_same_time_one_is_the_victim, begin,
                                        begin),
        cmocka_unit_test_setup_teardown(a_chain_that_ends_is_no_cycle, begin, begin),
        cmocka_unit_test_setup_teardown(an_owner_does_not_wait_for_itself, begin, begin),
        cmocka_unit_test_setup_teardown(each_of_several_readers_is_followed, begin, begin),
        cmocka_unit_test_setup_teardown(two_beats_after_the_second_look_prove_a_cycle, begin,
                                        begin),
        cmocka_unit_test_setup_teardown(beats_of_another_hash_prove_nothing, begin, begin),
        cmocka_unit_test_setup_teardown(another_hold_or_another_wait_is_another_cycle, begin,
                                        begin),
        cmocka_unit_test_setup_teardown(the_log_says_who_waits_for_what, begin, begin),
        cmocka_unit_test_setup_teardown(
            a_wait_is_proved_by_the_beats_of_the_hash_that_named_the_hold, begin, begin),
        cmocka_unit_test_setup_teardown(a_wait_with_another_time_is_of_a_late_hash, begin, begin),
        cmocka_unit_test_setup_teardown(a_wait_for_permits_is_blocked_if_too_few_others_are_left,
                                        begin, begin),
        cmocka_unit_test_setup_teardown(an_owner_may_wait_for_its_own_permits, begin, begin),
        cmocka_unit_test_setup_teardown(all_owners_of_permits_have_to_be_blocked, begin, begin),
        cmocka_unit_test_setup_teardown(a_crowd_that_wants_more_permits_is_a_deadlock, begin,
                                        begin),
        cmocka_unit_test_setup_teardown(a_wait_behind_a_deadlock_is_not_its_victim, begin, begin),
        cmocka_unit_test_setup_teardown(more_permits_end_a_proof, begin, begin),
        cmocka_unit_test_setup_teardown(of_each_deadlock_that_is_left_one_wait_is_the_victim, begin,
                                        begin),
        cmocka_unit_test_setup_teardown(a_cycle_of_64_is_found_and_no_longer_one, begin, begin),
        cmocka_unit_test_setup_teardown(a_graph_has_a_limit, begin, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
