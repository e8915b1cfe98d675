#include "support/line.h"

#include <stdio.h>
#include <string.h>

const char *line_side(void)
{
    if (kind_now() == &kinds[KIND_READ])
        return ":read";
    return kind_now() == &kinds[KIND_WRITE] ? ":write" : "";
}

static int id_length(const char *entry)
{
    return (int)strcspn(entry, ":");
}

struct relock_client *line_client_with(struct fixture *f, struct relock_options options)
{
    options.recheck_ms = NEVER_MS;
    options.watchdog_timeout_ms = NEVER_MS;
    options.handoff_ms = 1;
    options.flags = RELOCK_ANNOUNCE_PLAIN;
    return fixture_client(f, &options);
}

struct relock_client *line_client(struct fixture *f)
{
    return line_client_with(f, (struct relock_options){0});
}

bool line_wait(struct fixture *f, long long n)
{
    return probe_wait_in_line(f->probe, "orders", n);
}

struct listening {
    struct fixture *f;
    const char *entry;
};

static bool is_listener(void *arg)
{
    const struct listening *listening = arg;

    return strcmp(probe_text(listening->f->probe, "HGET " LINE_TURN " listener"),
                  listening->entry) == 0;
}

bool line_wait_listener(struct fixture *f, const char *entry)
{
    return wait_until(is_listener, &(struct listening){f, entry}, SOON_MS);
}

void line_entry(struct fixture *f, int i, char entry[LINE_ENTRY_MAX])
{
    snprintf(entry, LINE_ENTRY_MAX, "%s", probe_text(f->probe, "LINDEX " LINE " %d", i));
}

struct listener *line_listen(struct fixture *f, const char *entry)
{
    char inbox[128];

    snprintf(inbox, sizeof(inbox), LINE_INBOX("%.*s"), id_length(entry), entry);
    return listener_open(f->server->socket, inbox);
}

void line_tell(struct fixture *f, const char *entry, const char *message)
{
    char inbox[128];

    snprintf(inbox, sizeof(inbox), LINE_INBOX("%.*s"), id_length(entry), entry);
    assert_true(probe_int(f->probe, "PUBLISH %s %s", inbox, message) > 0);
}

struct listener *line_join_silent(struct fixture *f, const char *id)
{
    struct listener *inbox = line_listen(f, id);
    char entry[LINE_ENTRY_MAX];

    snprintf(entry, sizeof(entry), "%s%s", id, line_side());
    probe_int(f->probe, "HSETNX " LINE_TURN " until 0");
    if (probe_int(f->probe, "RPUSH " LINE " %s", entry) == 1)
        probe_int(f->probe, "HSET " LINE_TURN " first %s", entry);
    return inbox;
}

static bool hears(struct listener *listener, const char *verb)
{
    char message[64];

    snprintf(message, sizeof(message), "%s%s orders", verb, line_side());
    return listener_hears(listener, message, SOON_MS);
}

bool line_hears_now(struct listener *listener)
{
    return hears(listener, "now");
}

bool line_hears_first(struct listener *listener)
{
    return hears(listener, "first");
}

bool line_hears_second(struct listener *listener)
{
    return hears(listener, "second");
}

struct actor *line_begin(struct fixture *f, struct relock_lock *lock, long long n)
{
    struct actor *actor = actor_start();

    actor_begin_lock(actor, lock);
    assert_true(line_wait(f, n));
    return actor;
}
