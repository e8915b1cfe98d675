#include "cli/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUTPUT_MAX 65536
#define MAX_WORDS 64
#define END_MS 20000

struct output {
    int fd; /* -1: closed by the other side */
    size_t len;
    bool is_broken; /* a write ended within a line */
    char text[OUTPUT_MAX];
};

struct tool {
    struct tool *next; /* of all */
    pid_t pid;         /* 0: it was waited for */
    int terminal;      /* its master, or -1; then both outputs are there */
    int status;
    struct output out, err;
};

static struct tool *tools;

static void must(bool done, const char *what)
{
    if (done)
        return;
    perror(what);
    exit(EXIT_FAILURE);
}

static void become(struct fixture *f, const char *const *words, pid_t parent)
{
    struct relock_options options = fixture_options(f, NULL);
    const char *argv[MAX_WORDS] = {"relock"};
    sigset_t none;

    for (size_t i = 0; words[i] && i + 2 < MAX_WORDS; i++)
        argv[i + 1] = words[i];
    must(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent, "prctl");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGHUP, SIG_DFL); /* nohup ignores this one, a script's background job the others, */
    signal(SIGINT, SIG_DFL); /* and a shell cannot trap what was ignored when it started. */
    signal(SIGQUIT, SIG_DFL);
    must(setenv("RELOCK_URL", options.url, 1) == 0, "setenv");
    if (options.tls_ca_file)
        must(setenv("RELOCK_TLS_CA_FILE", options.tls_ca_file, 1) == 0, "setenv");
    execv(RELOCK_TOOL, (char *const *)(uintptr_t)argv);
    perror(RELOCK_TOOL);
    _exit(EXIT_FAILURE);
}

static pid_t start_without(struct fixture *f, struct tool *tool, const char *const *words)
{
    int out[2], err[2];
    pid_t parent = getpid(), pid;

    /* With O_DIRECT, a read returns what one write wrote. */
    must(pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC | O_DIRECT) == 0, "pipe2");
    pid = fork();
    must(pid >= 0, "fork");
    if (pid == 0) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        setsid();
        dup2(null, STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(err[1], STDERR_FILENO);
        become(f, words, parent);
    }
    close(out[1]);
    close(err[1]);
    tool->out.fd = out[0];
    tool->err.fd = err[0];
    tool->terminal = -1;
    return pid;
}

static pid_t start_on_terminal(struct fixture *f, struct tool *tool, const char *const *words)
{
    pid_t parent = getpid(), pid = forkpty(&tool->terminal, NULL, NULL, NULL);

    must(pid >= 0, "forkpty");
    if (pid == 0)
        become(f, words, parent);
    tool->out.fd = tool->terminal;
    tool->err.fd = -1;
    return pid;
}

struct tool *tool_start_words(struct fixture *f, bool on_terminal, const char *const *words)
{
    struct tool *tool = calloc(1, sizeof(*tool));

    must(tool != NULL, "calloc");
    fflush(NULL);
    tool->pid = on_terminal ? start_on_terminal(f, tool, words) : start_without(f, tool, words);
    tool->next = tools;
    tools = tool;
    return tool;
}

/* ---- output -------------------------------------------------------------------------------- */

static void take(struct output *output)
{
    ssize_t n = read(output->fd, output->text + output->len, OUTPUT_MAX - 1 - output->len);

    if (n > 0) {
        output->len += (size_t)n;
        output->is_broken |= output->text[output->len - 1] != '\n';
    } else if (n == 0 || errno != EINTR) { /* EIO: nobody has the terminal any more */
        close(output->fd);
        output->fd = -1;
    }
}

/* Takes what comes within so many milliseconds. False if nothing can come any more. */
static bool listen_for(struct tool *tool, int ms)
{
    struct pollfd fds[] = {{.fd = tool->out.fd, .events = POLLIN},
                           {.fd = tool->err.fd, .events = POLLIN}};

    if (tool->out.fd < 0 && tool->err.fd < 0)
        return false;
    if (poll(fds, 2, ms) > 0) {
        if (fds[0].revents)
            take(&tool->out);
        if (fds[1].revents)
            take(&tool->err);
    }
    return true;
}

static bool has_said(const struct tool *tool, const char *text)
{
    return strstr(tool->out.text, text) || strstr(tool->err.text, text);
}

bool tool_says(struct tool *tool, const char *text)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    bool may_say = true;

    while (!has_said(tool, text) && now_ms() < deadline_ms && may_say)
        may_say = listen_for(tool, 100);
    (void)late_unless(has_said(tool, text) || !may_say);
    if (!has_said(tool, text))
        fprintf(stderr, "relock has not said \"%s\" but:\n%s%s\n", text, tool->out.text,
                tool->err.text);
    return has_said(tool, text);
}

const char *tool_out(struct tool *tool)
{
    return tool->out.text;
}

const char *tool_err(struct tool *tool)
{
    return tool->err.text;
}

const char *tool_err_now(struct tool *tool)
{
    size_t before;

    do {
        before = tool->out.len + tool->err.len;
    } while (listen_for(tool, 0) && tool->out.len + tool->err.len > before);
    return tool->err.text;
}

bool tool_wrote_whole_lines(const struct tool *tool)
{
    return tool->err.len > 0 && !tool->err.is_broken;
}

bool tool_printed_json(struct tool *tool)
{
    FILE *reader = popen("python3 -c 'import json, sys; json.load(sys.stdin)'", "w");

    must(reader != NULL, "popen");
    (void)fputs(tool->out.text, reader);
    return pclose(reader) == 0;
}

const char *tool_lease(void)
{
    static char text[32];

    (void)snprintf(text, sizeof(text), "%llums", (unsigned long long)outlast_ms(TOOL_LEASE_MS));
    return text;
}

/* ---- signals and the end ------------------------------------------------------------------- */

void tool_signal_group(struct tool *tool, int number)
{
    must(kill(-tool->pid, number) == 0, "kill");
}

void tool_signal(struct tool *tool, int number)
{
    must(kill(tool->pid, number) == 0, "kill");
}

void tool_type(struct tool *tool, const char *keys)
{
    must(write(tool->terminal, keys, strlen(keys)) == (ssize_t)strlen(keys), "write");
}

static bool has_ended(void *arg)
{
    struct tool *tool = arg;
    int status;

    if (waitpid(tool->pid, &status, WNOHANG) != tool->pid)
        return false;
    tool->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

static void end(struct tool *tool)
{
    if (tool->pid > 0 && !has_ended(tool)) {
        kill(tool->pid, SIGKILL);
        waitpid(tool->pid, NULL, 0);
        tool->status = -1;
    }
    tool->pid = 0;
    if (tool->out.fd >= 0)
        close(tool->out.fd);
    if (tool->err.fd >= 0)
        close(tool->err.fd);
    tool->out.fd = tool->err.fd = -1;
}

int tool_wait(struct tool *tool)
{
    uint64_t deadline_ms = deadline_in(END_MS);

    while (now_ms() < deadline_ms && listen_for(tool, 100))
        ;
    if (tool->out.fd >= 0 || tool->err.fd >= 0) { /* its command is still there */
        end(tool);
        (void)late_unless(false);
        return -1;
    }
    if (wait_until(has_ended, tool, SOON_MS))
        tool->pid = 0;
    end(tool);
    return tool->status;
}

static void end_all(void)
{
    while (tools) {
        struct tool *tool = tools;

        tools = tool->next;
        end(tool);
        free(tool);
    }
}

int tool_begin(void **state)
{
    return fixture_begin(state);
}

int tool_end(void **state)
{
    end_all();
    return fixture_end_fenced(state);
}
