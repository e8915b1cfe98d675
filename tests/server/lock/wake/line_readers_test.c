/*
 * Readers in the line of a read/write lock: when one may acquire it, all may. Nothing here ends by
 * time.
 */
#include "support/line.h"
#include "support/sides.h"

#define N_READERS 4

struct scene {
    struct fixture *f;
    struct sides held; /* of another client */
    struct relock_lock *reads[N_READERS];
    struct actor *readers[N_READERS];
};

/* Each reader is in a client of its own. */
static void let_readers_wait(struct scene *scene, struct fixture *f)
{
    scene->f = f;
    scene->held = sides_of(f, line_client(f));
    assert_result(relock_lock(scene->held.write), RELOCK_OK);
    for (int i = 0; i < N_READERS; i++) {
        scene->reads[i] = sides_of(f, line_client(f)).read;
        scene->readers[i] = line_begin(f, scene->reads[i], i + 1);
    }
}

/* Hears what the reader at place `i`, from 0, is told. */
static struct listener *beside(const struct scene *scene, int i)
{
    char entry[LINE_ENTRY_MAX];

    line_entry(scene->f, i, entry);
    return line_listen(scene->f, entry);
}

static void all_readers_hold(struct scene *scene)
{
    assert_results(scene->readers, N_READERS, RELOCK_OK);
    assert_result(relock_trylock(sides_of(scene->f, line_client(scene->f)).write), RELOCK_BUSY);
}

static void all_readers_leave(struct scene *scene)
{
    for (int i = 0; i < N_READERS; i++)
        assert_result(actor_unlock(scene->readers[i], scene->reads[i]), RELOCK_OK);
}

/* The writer tells the first, and the first all others, of which the writer tells the last nothing
 * else. */
static void all_readers_in_line_get_in_when_the_writer_leaves(void **state)
{
    struct listener *last;
    struct scene scene;

    let_readers_wait(&scene, *state);
    last = beside(&scene, N_READERS - 1);
    assert_result(relock_unlock(scene.held.write), RELOCK_OK);
    assert_true(listener_hears(last, "now:read orders", SOON_MS));
    all_readers_hold(&scene);
    all_readers_leave(&scene);
    listener_close(last);
}

static void all_readers_in_line_get_in_when_a_writer_becomes_a_reader(void **state)
{
    struct listener *first;
    struct scene scene;

    let_readers_wait(&scene, *state);
    first = beside(&scene, 0);
    assert_result(relock_lock(scene.held.read), RELOCK_OK);
    assert_result(relock_unlock(scene.held.write), RELOCK_OK);
    assert_true(listener_hears(first, "now:read orders", SOON_MS));
    all_readers_hold(&scene);
    assert_result(relock_unlock(scene.held.read), RELOCK_OK);
    all_readers_leave(&scene);
    listener_close(first);
}

/* A writer stands between them: it gets the lock when they have all left. */
static void readers_behind_a_writer_get_in_with_the_first(void **state)
{
    struct fixture *f = *state;
    struct sides held = sides_of(f, line_client(f));
    struct relock_lock *reads[2], *write = sides_of(f, line_client(f)).write;
    struct actor *readers[2], *writer;

    assert_result(relock_lock(held.write), RELOCK_OK);
    for (int i = 0; i < 2; i++)
        reads[i] = sides_of(f, line_client(f)).read;
    readers[0] = line_begin(f, reads[0], 1);
    writer = line_begin(f, write, 2);
    readers[1] = line_begin(f, reads[1], 3);
    assert_result(relock_unlock(held.write), RELOCK_OK);
    assert_results(readers, 2, RELOCK_OK);
    assert_true(actor_is_busy(writer));
    for (int i = 0; i < 2; i++)
        assert_result(actor_unlock(readers[i], reads[i]), RELOCK_OK);
    assert_gets_in(writer, write);
}

/* Both sides of one client stand in the line, each with its own place. */
static void a_reader_and_a_writer_of_one_client_have_a_place_each(void **state)
{
    struct fixture *f = *state;
    struct sides held = sides_of(f, line_client(f)), ours = sides_of(f, line_client(f));
    struct actor *writer, *reader;

    assert_result(relock_lock(held.write), RELOCK_OK);
    writer = line_begin(f, ours.write, 1);
    reader = line_begin(f, ours.read, 2);
    assert_result(relock_unlock(held.write), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_true(actor_is_busy(reader));
    assert_int_equal(probe_int(f->probe, "LLEN " LINE), 1);
    assert_result(actor_unlock(writer, ours.write), RELOCK_OK);
    assert_gets_in(reader, ours.read);
}

static void a_reader_that_times_out_leaves_the_line(void **state)
{
    struct fixture *f = *state;
    struct sides held = sides_of(f, line_client(f)), ours = sides_of(f, line_client(f));
    struct actor *reader = actor_start();

    assert_result(relock_lock(held.write), RELOCK_OK);
    actor_begin_timedlock(reader, ours.read, (int64_t)outlast_ms(2000));
    assert_true(line_wait(f, 1));
    assert_result(actor_result(reader), RELOCK_TIMEOUT);
    assert_true(line_wait(f, 0));
    assert_result(relock_unlock(held.write), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(all_readers_in_line_get_in_when_the_writer_leaves),
        SERVER_TEST(all_readers_in_line_get_in_when_a_writer_becomes_a_reader),
        SERVER_TEST(readers_behind_a_writer_get_in_with_the_first),
        SERVER_TEST(a_reader_and_a_writer_of_one_client_have_a_place_each),
        SERVER_TEST(a_reader_that_times_out_leaves_the_line),
    };

    return SERVER_TESTS_RUN(tests);
}
