/*
 * Command - one command of the tool, such as `relock run`
 *
 * Each is in the file of its name. main.c has the list.
 */
#ifndef RELOCK_TOOL_COMMAND_H
#define RELOCK_TOOL_COMMAND_H

struct command {
    const char *name;
    const char *summary; /* one line for the help of the tool */
    const char *help;    /* what `relock NAME --help` prints; at most 24 lines of 80 columns */
    int (*run)(const struct command *self, int argc, char **argv); /* returns the exit status */
};

extern const struct command command_run, command_status, command_list, command_waiters,
    command_watch, command_break, command_top, command_bench, command_doctor, command_acl;

#endif
