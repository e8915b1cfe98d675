#include "why_not_people.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const char *url = "redis://127.0.0.1:6379";

void must(bool done, const char *what, const char *why)
{
    if (done)
        return;
    fprintf(stderr, "why_not: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

/* ---- a person on a plain connection ---- */

struct person come(const char *name)
{
    struct person person = {.name = name};
    char host[256] = "";
    int port = 6379;

    if (strncmp(url, "unix://", 7) == 0)
        person.redis = redisConnectUnix(url + 7);
    else if (sscanf(url, "redis://%255[^:/]:%d", host, &port) >= 1)
        person.redis = redisConnect(host, port);
    must(person.redis != NULL, url, "not a redis:// or unix:// url");
    must(person.redis->err == 0, url, person.redis->errstr);
    return person;
}

void go(struct person *person)
{
    redisFree(person->redis);
}

long long ask(const struct person *person, const char *format, ...)
{
    redisReply *reply;
    char command[128];
    long long number;
    va_list args;

    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    reply = redisCommand(person->redis, command);
    must(reply != NULL, command, person->redis->errstr);
    must(reply->type != REDIS_REPLY_ERROR, command, reply->str);

    number = reply->str == NULL ? reply->integer : strtoll(reply->str, NULL, 10);
    if (reply->type == REDIS_REPLY_STATUS)
        number = strcmp(reply->str, "OK") == 0;
    freeReplyObject(reply);
    printf("    %s: %s -> %lld\n", person->name, command, number);
    return number;
}

void wait_until_free(const struct person *person)
{
    long long remaining_ms;

    while ((remaining_ms = ask(person, "PTTL " LOCK)) >= 0)
        usleep((useconds_t)(remaining_ms + 1) * 1000);
}

long long first_pttl(void)
{
    struct person bob = come("bob");
    redisReply *reply = NULL;
    long long pttl;

    do {
        freeReplyObject(reply);
        reply = redisCommand(bob.redis, "PTTL " LOCK);
        must(reply != NULL, "PTTL", bob.redis->errstr);
        pttl = reply->integer;
    } while (pttl == -2);
    printf("    bob: PTTL " LOCK " -> %lld\n", pttl);
    freeReplyObject(reply);
    go(&bob);
    return pttl;
}

void clear(void)
{
    struct person nobody = come("nobody");

    freeReplyObject(redisCommand(nobody.redis, "DEL " LOCK));
    go(&nobody);
}

/* ---- a person with relock ---- */

int report(const struct user *user, const char *call, int r)
{
    printf("    %s: %s -> %s\n", user->name, call, relock_strerror(r));
    return r;
}

struct user join(const char *name, uint64_t lease_ms)
{
    const struct relock_options options = {
        .url = url,
        .watchdog_timeout_ms = lease_ms,
        .log_level = RELOCK_LOG_ERROR, /* the loss is part of the demonstration */
    };
    struct user user = {.name = name};
    int r;

    r = relock_client_new(&options, &user.client);
    must(r == RELOCK_OK, "connect", relock_strerror(r));
    r = relock_lock_new(user.client, LOCK, &user.lock);
    must(r == RELOCK_OK, "make the lock", relock_strerror(r));
    return user;
}

void leave(struct user *user)
{
    relock_lock_free(user->lock);
    relock_client_free(user->client);
}

/* ---- a child process that is killed ---- */

pid_t begin(void (*work)(void))
{
    pid_t pid = fork();

    must(pid >= 0, "fork", "failed");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work();
        exit(EXIT_FAILURE);
    }
    return pid;
}

void die(const char *name)
{
    printf("    %s: dies\n", name);
    raise(SIGKILL);
}

void await_death(pid_t pid)
{
    int status;

    must(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status), "a process", "was not killed");
}
