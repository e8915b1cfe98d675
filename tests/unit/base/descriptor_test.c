/* Which descriptors a forked child closes: all of a scope, and no other. */
#include "base/descriptor.h"

#include "support/child.h"
#include "support/leaks.h"
#include "support/wait.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define N_MANY 1000 /* more than the list has places at first */
#define N_FORKS 200
#define N_THREADS 4

static const char ours, theirs; /* scopes */

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* ---- what a child closes ------------------------------------------------------------------- */

struct situation {
    int of_ours[3];
    int of_theirs, of_none;
};

static int close_ours(struct child *parent, void *arg)
{
    const struct situation *situation = arg;

    (void)parent;
    relock_descriptor_close_all(&ours);
    for (size_t i = 0; i < 3; i++)
        child_must(!is_open(situation->of_ours[i]));
    child_must(is_open(situation->of_theirs));
    child_must(is_open(situation->of_none));
    relock_descriptor_close_all(&theirs);
    child_must(!is_open(situation->of_theirs));
    child_must(is_open(situation->of_none));
    return EXIT_SUCCESS;
}

static void a_child_closes_all_of_a_scope_and_no_other(void **state)
{
    struct leaks before = leaks_now();
    struct situation situation = {
        .of_ours = {relock_descriptor_socket(&ours, AF_INET), relock_descriptor_eventfd(&ours),
                    relock_descriptor_epoll(&ours)},
        .of_theirs = relock_descriptor_eventfd(&theirs),
        .of_none = relock_descriptor_eventfd(NULL),
    };

    (void)state;
    assert_int_equal(child_wait(child_start(close_ours, &situation), SOON_MS), EXIT_SUCCESS);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(relock_descriptor_close(situation.of_ours[i]), -1);
    (void)relock_descriptor_close(situation.of_theirs);
    (void)relock_descriptor_close(situation.of_none);
    assert_int_equal(relock_descriptor_close(-1), -1);
    assert_true(leaks_none_since(&before));
}

static int close_ours_beside_it(struct child *parent, void *arg)
{
    const int *file = arg;

    (void)parent;
    relock_descriptor_close_all(&ours);
    child_must(is_open(*file));
    return EXIT_SUCCESS;
}

/* A file of the program gets the lowest number that is free. */
static void a_file_that_has_got_the_number_of_a_closed_descriptor_stays_open(void **state)
{
    int first = relock_descriptor_eventfd(&ours), second = relock_descriptor_eventfd(&ours), file;

    (void)state;
    (void)relock_descriptor_close(first);
    file = eventfd(0, EFD_CLOEXEC);
    assert_int_equal(file, first);
    assert_int_equal(child_wait(child_start(close_ours_beside_it, &file), SOON_MS), EXIT_SUCCESS);
    (void)relock_descriptor_close(second);
    close(file);
}

static int close_twice(struct child *parent, void *arg)
{
    int *fd = arg, file;

    (void)parent;
    relock_descriptor_close_all(&ours);
    file = eventfd(0, EFD_CLOEXEC);
    child_must(file == *fd);
    relock_descriptor_close_all(&ours);
    child_must(is_open(file));
    return EXIT_SUCCESS;
}

static void a_child_closes_its_copies_once(void **state)
{
    int fd = relock_descriptor_eventfd(&ours);

    (void)state;
    assert_int_equal(child_wait(child_start(close_twice, &fd), SOON_MS), EXIT_SUCCESS);
    (void)relock_descriptor_close(fd);
}

static int close_many(struct child *parent, void *arg)
{
    const int *fds = arg;

    (void)parent;
    relock_descriptor_close_all(&ours);
    for (int i = 0; i < N_MANY; i++)
        child_must(!is_open(fds[i]));
    return EXIT_SUCCESS;
}

static void a_scope_may_have_many(void **state)
{
    static int fds[N_MANY];

    (void)state;
    for (int i = 0; i < N_MANY; i++) {
        fds[i] = relock_descriptor_eventfd(&ours);
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(child_wait(child_start(close_many, fds), SOON_MS), EXIT_SUCCESS);
    for (int i = 0; i < N_MANY; i++)
        (void)relock_descriptor_close(fds[i]);
}

/* ---- a fork while threads open and close ---------------------------------------------------- */

static atomic_bool stops;
static atomic_int moving = -1; /* a file of the program */

static void *open_and_close(void *arg)
{
    while (!atomic_load(&stops))
        (void)relock_descriptor_close(relock_descriptor_eventfd(&ours));
    return arg;
}

/* Frees numbers for the library and takes those that it has freed. */
static void *move(void *arg)
{
    while (!atomic_load(&stops)) {
        int next = fcntl(atomic_load(&moving), F_DUPFD_CLOEXEC, 0);

        close(atomic_exchange(&moving, next));
    }
    return arg;
}

struct seen {
    struct stat file;
    int n_event_fds;
};

static int count(const struct seen *seen, bool is_file)
{
    struct stat stat;
    int n = 0;

    for (int fd = 0; fd < N_MANY; fd++)
        if (fstat(fd, &stat) == 0)
            n += is_file ? stat.st_ino == seen->file.st_ino && stat.st_dev == seen->file.st_dev
                         : (stat.st_mode & S_IFMT) == 0;
    return n;
}

static int have_the_file_alone(struct child *parent, void *arg)
{
    const struct seen *seen = arg;

    (void)parent;
    relock_descriptor_close_all(&ours);
    child_must(count(seen, false) == seen->n_event_fds);
    child_must(count(seen, true) > 0);
    return EXIT_SUCCESS;
}

static void a_fork_while_threads_open_and_close_confuses_nothing(void **state)
{
    pthread_t threads[N_THREADS];
    struct seen seen = {.n_event_fds = 0};
    int ends[2];

    (void)state;
    seen.n_event_fds = count(&seen, false);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fstat(ends[0], &seen.file), 0);
    close(ends[1]);
    atomic_store(&moving, ends[0]);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i == 0 ? move : open_and_close, NULL),
                         0);
    for (int i = 0; i < N_FORKS; i++)
        assert_int_equal(child_wait(child_start(have_the_file_alone, &seen), SOON_MS),
                         EXIT_SUCCESS);
    atomic_store(&stops, true);
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    close(atomic_load(&moving));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_closes_all_of_a_scope_and_no_other),
        cmocka_unit_test(a_file_that_has_got_the_number_of_a_closed_descriptor_stays_open),
        cmocka_unit_test(a_child_closes_its_copies_once),
        cmocka_unit_test(a_scope_may_have_many),
        cmocka_unit_test(a_fork_while_threads_open_and_close_confuses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
