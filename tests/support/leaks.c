#include "support/leaks.h"

#include "support/late.h"
#include "support/wait.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static size_t count_entries(const char *folder)
{
    DIR *dir = opendir(folder);
    size_t n = 0;

    if (!dir)
        return 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir))
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static void *return_at_once(void *arg)
{
    return arg;
}

/* ThreadSanitizer starts one of its own with our first thread. */
static void have_had_a_thread(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, return_at_once, NULL) == 0)
        pthread_join(thread, NULL);
}

struct leaks leaks_now(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, have_had_a_thread);
    return (struct leaks){
        .n_fds = count_entries("/proc/self/fd") - 1, /* without the one that lists them */
        .n_threads = count_entries("/proc/self/task"),
    };
}

static bool none_since(void *arg)
{
    const struct leaks *before = arg;
    struct leaks now = leaks_now();

    return now.n_fds <= before->n_fds && now.n_threads <= before->n_threads;
}

static void list_fds(void)
{
    char path[64], target[256];

    for (int fd = 0; fd < 256; fd++) {
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0)
            fprintf(stderr, "  fd %d: %.*s\n", fd, (int)n, target);
    }
}

bool leaks_none_since(const struct leaks *before)
{
    struct leaks now;

    if (wait_until(none_since, (void *)before, SOON_MS))
        return true;

    late_is_leak();
    now = leaks_now();
    fprintf(stderr, "fds: %zu, before: %zu; threads: %zu, before: %zu\n", now.n_fds, before->n_fds,
            now.n_threads, before->n_threads);
    list_fds();
    return false;
}
