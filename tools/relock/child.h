/*
 * Child - the command that `relock run` runs, and the signals that concern it
 *
 * With a terminal, the command shares the process group of the tool: the terminal sends Ctrl-C to
 * both, and the tool does not forward what came from there. Without a terminal, the command has a
 * process group of its own. So a signal to the group of the tool reaches the command once, by way
 * of the tool. A signal for the command reaches all processes that it has started in its group.
 * With a terminal, the group may have other processes, too, so child_end() finds those of the
 * command by their parents.
 *
 * As process 1 of a container, the tool is the parent of all processes whose parents have ended. It
 * reaps them.
 *
 * If the tool dies, the kernel sends `death_signal` to the command.
 *
 * Threads: the main one, which must live as long as the command.
 */
#ifndef RELOCK_TOOL_CHILD_H
#define RELOCK_TOOL_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child {
    pid_t pid;          /* 0: it does not run */
    bool has_own_group; /* there is no terminal */
    int signals_fd;     /* a signalfd of SIGCHLD and the signals that are forwarded */
    sigset_t mask;      /* as it was, for the command */
};

/* Blocks the signals, which arrive at `signals_fd` from now on. Call it before any thread exists.
 * False if the system has no descriptor left. */
bool child_listen(struct child *child);

/* Starts the command. Returns 0, or the errno of exec(). */
int child_start(struct child *child, char **command, int death_signal);

/*
 * Reads one signal: forwards it, and returns its number. Returns 0 if it was SIGCHLD and the
 * command has ended, -1 for anything else. Before the command runs, it only returns the number.
 */
int child_hear(struct child *child);

/* To the command and all processes that it has started in its process group. */
void child_end(const struct child *child, int number);

/* The command has ended: its exit status, or 128 + n for signal n. `kills_rest`: what it
 * has started in its process group, and is left, is killed. */
int child_reap(struct child *child, bool kills_rest);

#endif
