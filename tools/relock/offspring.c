#include "offspring.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define STAT_MAX 256   /* the fields behind the name are short */
#define MOST_ROUNDS 10 /* a process may start another one while the list is read */

struct process {
    pid_t pid, parent, group;
    bool is_offspring, has_ended;
};

struct processes {
    struct process *at;
    size_t n, size;
};

/* The children from before the command, which a shell has started that then became this process. */
static struct processes strangers;

/* "4711 (name) S 4700 4711 ...", where the name may have any bytes. */
static bool read_process(const char *name, struct process *process)
{
    char path[300], text[STAT_MAX] = "", state = '\0';
    const char *behind;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%s/stat", name);
    file = fopen(path, "re");
    if (!file)
        return false;
    (void)!fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    behind = strrchr(text, ')');
    *process = (struct process){.pid = (pid_t)strtol(name, NULL, 10)};
    if (!behind || sscanf(behind, ") %c %d %d", &state, &process->parent, &process->group) != 3)
        return false;
    process->has_ended = state == 'Z' || state == 'X';
    return true;
}

static bool append(struct processes *all, const struct process *process)
{
    if (all->n == all->size) {
        size_t size = all->size ? 2 * all->size : 256;
        struct process *at = realloc(all->at, size * sizeof(*at));

        if (!at)
            return false;
        all->at = at;
        all->size = size;
    }
    all->at[all->n++] = *process;
    return true;
}

static void list(struct processes *all)
{
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    struct process process;

    *all = (struct processes){0};
    while (folder && (entry = readdir(folder)))
        if (*entry->d_name >= '1' && *entry->d_name <= '9' &&
            read_process(entry->d_name, &process) && !append(all, &process))
            break;
    if (folder)
        (void)closedir(folder);
}

void offspring_adopt(void)
{
    struct processes *all = &strangers;
    size_t n = 0;

    list(all);
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].parent == getpid())
            all->at[n++] = all->at[i];
    all->n = n;
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

static bool is_stranger(pid_t pid)
{
    for (size_t i = 0; i < strangers.n; i++)
        if (strangers.at[i].pid == pid)
            return true;
    return false;
}

/* A process of the command may get its number. */
static void forget(pid_t pid)
{
    for (size_t i = 0; i < strangers.n; i++)
        if (strangers.at[i].pid == pid)
            strangers.at[i].pid = 0;
}

static bool is_offspring(const struct processes *all, pid_t pid)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->at[i].pid == pid)
            return all->at[i].is_offspring;
    return false;
}

static void mark(struct processes *all)
{
    bool is_new = true;

    while (is_new) {
        is_new = false;
        for (size_t i = 0; i < all->n; i++) {
            struct process *at = &all->at[i];

            if (!at->is_offspring && !is_stranger(at->pid) &&
                (at->parent == getpid() || is_offspring(all, at->parent)))
                at->is_offspring = is_new = true;
        }
    }
}

/* Returns how many got it. */
static size_t signal_listed(const struct processes *all, int number)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++) {
        const struct process *at = &all->at[i];

        if (at->is_offspring && at->group == getpgrp() && !at->has_ended &&
            kill(at->pid, number) == 0)
            n++;
    }
    return n;
}

void offspring_signal(pid_t child, int number)
{
    struct processes all;
    size_t n;
    int rounds = 0;

    do {
        list(&all);
        mark(&all);
        n = signal_listed(&all, number);
        free(all.at);
    } while (number == SIGKILL && n > 0 && ++rounds < MOST_ROUNDS);
    if (all.n == 0)
        (void)kill(child, number);
}

bool offspring_reap(pid_t child)
{
    for (;;) {
        siginfo_t info = {0};

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
            return false;
        if (info.si_pid == child)
            return true;
        (void)waitpid(info.si_pid, NULL, 0);
        forget(info.si_pid);
    }
}
