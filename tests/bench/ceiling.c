/* redis-benchmark sends the script that acquires a lock, each time with another key, so that it
 * acquires a first level. The keys expire with their leases. */
#include "bare.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "redis-benchmark"
#define LEASE_MS "100"
#define COMMANDS_PER_S 20000 /* approximate number of requests */
#define EXIT_NO_PROGRAM 127
#define ARGS_MAX 32
#define UNIX_SCHEME "unix://"
#define TCP_SCHEME "redis://"

static const struct size {
    const char *n_connections;
    const char *rate_id, *rate_what;
    const char *p50_id, *p50_what;
} sizes[] = {
    {"1", "rate_1", "1 connection", "p50_1", "1 connection, p50"},
    {"64", "rate_64", "64 connections", "p50_64", "64 connections, p50"},
};

#define N_SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct speed {
    double per_second;
    double p50_us;
};

/* `host` is a buffer for the host's name. */
static unsigned add_address(const char **args, const char *url, char host[256])
{
    char *colon;

    if (strncmp(url, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0) {
        args[0] = "-s";
        args[1] = url + strlen(UNIX_SCHEME);
        return 2;
    }
    snprintf(host, 256, "%s", url + strlen(TCP_SCHEME));
    colon = strchr(host, ':');
    args[0] = "-h";
    args[1] = host;
    if (!colon)
        return 2;
    *colon = '\0';
    args[2] = "-p";
    args[3] = colon + 1;
    return 4;
}

static void become_benchmark(const struct plan *plan, const char *n_connections)
{
    const char *args[ARGS_MAX] = {PROGRAM};
    char host[256], n[24], key[NAME_MAX_LEN + 16], name[NAME_MAX_LEN];
    const char *rest[] = {"-c",      n_connections,    "-n", n,   "-r",     "1000000000", "--csv",
                          "EVALSHA", bare_lock_sha1(), "1",  key, LEASE_MS, "holder",     "1"};

    row_name(name, "ceiling", 0);
    snprintf(key, sizeof(key), "%s:__rand_int__", name);
    snprintf(n, sizeof(n), "%.0f", COMMANDS_PER_S * plan->seconds);
    memcpy(args + 1 + add_address(args + 1, plan->url, host), rest, sizeof(rest));
    execvp(PROGRAM, (char **)args);
    _exit(EXIT_NO_PROGRAM);
}

/* "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",... The name of the test, which
 * holds no quote, is the first. */
static bool read_speed(char *line, struct speed *speed)
{
    const char *fields[5] = {NULL};
    unsigned n = 0;

    for (char *field = strtok_r(line, "\"", &line); field && n < 5;
         field = strtok_r(NULL, "\"", &line))
        if (strcmp(field, ",") != 0)
            fields[n++] = field;
    if (n < 5)
        return false;
    speed->per_second = strtod(fields[1], NULL);
    speed->p50_us = strtod(fields[4], NULL) * 1000;
    return speed->per_second > 0;
}

/* False if there is no such program. */
static bool run_benchmark(const struct plan *plan, const char *n_connections, struct speed *speed)
{
    char line[1024];
    bool found = false;
    int fds[2], status;
    FILE *output;
    pid_t pid;

    if (pipe(fds) != 0 || (pid = fork()) < 0)
        die("no process for " PROGRAM);
    if (pid == 0) {
        dup2(fds[1], STDOUT_FILENO);
        close(fds[0]);
        close(fds[1]);
        become_benchmark(plan, n_connections);
    }
    close(fds[1]);
    output = fdopen(fds[0], "r");
    if (!output)
        die("out of memory");
    while (fgets(line, sizeof(line), output))
        found = read_speed(line, speed) || found;
    fclose(output);
    if (waitpid(pid, &status, 0) != pid || status == EXIT_NO_PROGRAM << 8)
        return false;
    if (status != 0 || !found)
        die(PROGRAM " says nothing that can be read");
    return true;
}

void row_ceiling(const struct plan *plan, struct report *report)
{
    struct result *result = report_add(
        report, "ceiling", "redis-benchmark, EVALSHA of the script that acquires a lock");
    struct redisContext *redis = bare_connect(plan->url); /* the server has the script now */
    struct speed speed;

    if (!run_benchmark(plan, "1", &speed)) {
        result_note(result, "there is no " PROGRAM);
        bare_close(redis);
        return;
    }
    for (size_t i = 0; i < N_SIZES; i++) {
        result_add_line(result, sizes[i].rate_id, sizes[i].rate_what, "commands/s");
        result_add_line(result, sizes[i].p50_id, sizes[i].p50_what, "us");
    }
    for (unsigned round = 0; round < plan->rounds; round++) {
        for (size_t i = 0; i < N_SIZES; i++) {
            (void)run_benchmark(plan, sizes[i].n_connections, &speed);
            series_add(&result->lines[2 * i].series, speed.per_second);
            series_add(&result->lines[2 * i + 1].series, speed.p50_us);
        }
    }
    result_note(result, "a lock+unlock is two commands");
    bare_close(redis);
}
