/*
 * relock - locks on Redis for shells, cron jobs and operators
 *
 * It uses the public header of the library alone. Each command is in a file of its name.
 */
#include "command.h"
#include "statuses.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct command *const commands[] = {
    &command_run,    &command_status, &command_list, &command_waiters,
    &command_watch,  &command_break,  &command_top,  &command_bench,
    &command_doctor, &command_acl,    NULL};

static void print_help(FILE *out)
{
    (void)fputs("Usage: relock COMMAND [OPTION]... [ARGUMENT]...\n"
                "Locks that threads, processes and machines share through Redis or Valkey.\n\n",
                out);
    for (size_t i = 0; commands[i]; i++)
        (void)fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    (void)fputs("\nThe server: --url, or RELOCK_URL [redis://127.0.0.1:6379]. The password: in\n"
                "RELOCK_URL, RELOCK_PASSWORD, or the file RELOCK_PASSWORD_FILE; keep it off the\n"
                "command line. TLS: RELOCK_TLS_CA_FILE, _CERT_FILE, _KEY_FILE, _SERVER_NAME.\n"
                "`relock help COMMAND` explains a command, `man relock` all of them, and the\n"
                "other variables. `relock --version` or `-V` prints the version.\n",
                out);
}

/* A caller may have closed stdin, stdout or stderr. Otherwise a connection to Redis would get that
 * number, and output would go there. Each is opened the wrong way round, so that its use fails. The
 * command of `relock run` finds them closed. */
static bool fill_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd)
            return false;
    return true;
}

/* At each exit: a disk may be full. */
static void end_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    (void)fprintf(stderr, "relock: cannot write to stdout: %s\n", strerror(errno));
    _exit(STATUS_FAILED);
}

/* getopt_long() puts the first word before what it says of wrong options. */
static int run(const struct command *command, int argc, char **argv)
{
    char title[32];

    (void)snprintf(title, sizeof(title), "relock %s", command->name);
    argv[0] = title;
    return command->run(command, argc, argv);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static bool is_one_of(const char *word, const char *one, const char *other)
{
    return strcmp(word, one) == 0 || strcmp(word, other) == 0;
}

/* `relock help [COMMAND]` */
static bool prints_help(const char *name, const char *topic)
{
    const struct command *command = find_command(topic);
    bool is_help = strcmp(name, "help") == 0;

    if (is_help && command)
        (void)fputs(command->help, stdout);
    else if ((is_help && !*topic) || is_one_of(name, "--help", "-h"))
        print_help(stdout);
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const char *topic = argc > 2 ? argv[2] : "";
    static char line[BUFSIZ];

    if (!fill_standard_descriptors())
        return STATUS_FAILED;
    /* Each line in one piece: the library's thread for log lines writes to the same descriptor. */
    (void)setvbuf(stderr, line, _IOLBF, sizeof(line));
    (void)atexit(end_output);
    if (find_command(name))
        return run(find_command(name), argc - 1, argv + 1);
    if (is_one_of(name, "--version", "-V"))
        return puts("relock " RELOCK_TOOL_VERSION) < 0 ? STATUS_FAILED : STATUS_OK;
    if (prints_help(name, topic))
        return STATUS_OK;
    if (strcmp(name, "help") == 0)
        name = topic;
    if (*name == '-')
        (void)fprintf(stderr, "relock: the command is missing before `%s`\n", name);
    else if (*name)
        (void)fprintf(stderr, "relock: there is no command `%s`\n", name);
    print_help(stderr);
    return STATUS_FAILED;
}
