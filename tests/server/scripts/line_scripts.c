#include "line_scripts.h"

#include "support/peer.h"

#include "redis/server/script.h"

#include <stdio.h>
#include <string.h>

const char *lock_body(void)
{
    const char *const bodies[KINDS_AND_SIDES_N] = {[KIND_REENTRANT] = relock_script_lock.body,
                                                   [KIND_FENCED] = relock_script_fenced_lock.body,
                                                   [KIND_PLAIN] = relock_script_plain_lock.body,
                                                   [KIND_WRITE] = relock_script_write_lock.body};

    return bodies[kind_now() - kinds];
}

const char *unlock_body(void)
{
    const char *const bodies[KINDS_AND_SIDES_N] = {[KIND_REENTRANT] = relock_script_unlock.body,
                                                   [KIND_FENCED] = relock_script_unlock.body,
                                                   [KIND_PLAIN] = relock_script_plain_unlock.body,
                                                   [KIND_WRITE] = relock_script_write_unlock.body};

    return bodies[kind_now() - kinds];
}

const char *force_body(void)
{
    if (kind_now() == &kinds[KIND_PLAIN])
        return relock_script_plain_force_unlock.body;
    return kind_now() == &kinds[KIND_WRITE] ? relock_script_rw_force_unlock.body
                                            : relock_script_force_unlock.body;
}

const char *field_of(const char *id)
{
    static char field[80];

    snprintf(field, sizeof(field), "%s:1000000001%s", id, line_side());
    return field;
}

const char *ask_for(struct fixture *f, const char *name, const char *id, bool listens)
{
    return probe_list(f->probe, "EVAL %s 1 %s " LEASE_MS " %s 1 %s %s%s %d", lock_body(), name,
                      field_of(id), "", id, line_side(), listens);
}

bool is_granted(struct fixture *f, const char *id)
{
    const char *reply = ask_for(f, "orders", id, false);

    return strchr(reply, ' ') == NULL && strchr(reply, '-') == NULL;
}

int place_of(struct fixture *f, const char *id)
{
    long long left;
    int place, is_foreign;

    if (sscanf(ask_for(f, "orders", id, false), "%lld %d %d", &left, &place, &is_foreign) != 3)
        return -1;
    return place;
}

bool is_reserved(struct fixture *f, const char *id)
{
    return strncmp(ask_for(f, "orders", id, false), "-2 ", 3) == 0;
}

long long give(struct fixture *f, const char *id)
{
    return probe_int(f->probe, "EVAL %s 1 orders %s 0 %s 0", unlock_body(), field_of(id), CHANNEL);
}

const char *give_and_wait(struct fixture *f, const char *id)
{
    return probe_list(f->probe, "EVAL %s 1 orders %s 0 %s 0 %s%s", unlock_body(), field_of(id),
                      CHANNEL, id, line_side());
}

const char *give_and_wait_in_cluster(struct fixture *f, const char *id)
{
    return probe_list(f->probe, "EVAL %s 1 orders %s 0 %s 0 %s%s PUBLISH", unlock_body(),
                      field_of(id), CHANNEL, id, line_side());
}

void leave(struct fixture *f, const char *id)
{
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 orders %s%s", relock_script_line_leave.body, id,
                               line_side()),
                     1);
}

struct scene scene_of(struct fixture *f)
{
    struct scene scene = {.f = f,
                          .a = line_listen(f, A),
                          .b = line_listen(f, B),
                          .c = line_listen(f, C),
                          .holder = line_listen(f, HOLDER)};

    assert_true(is_granted(f, HOLDER));
    assert_int_equal(place_of(f, A), 1);
    assert_int_equal(place_of(f, B), 2);
    assert_int_equal(place_of(f, C), 3);
    return scene;
}

bool hears_nothing(struct listener *listener)
{
    return listener_hears_nothing(listener, 5);
}

void scene_end(struct scene *scene)
{
    listener_close(scene->a);
    listener_close(scene->b);
    listener_close(scene->c);
    listener_close(scene->holder);
    probe_int(scene->f->probe, "DEL orders " LINE " " LINE_TURN);
}

void barge(struct fixture *f)
{
    if (kind_now()->is_string)
        probe_int(f->probe, "SET orders " PEER);
    else if (kind_now() == &kinds[KIND_WRITE])
        probe_int(f->probe, "HSET orders mode write " PEER ":write 1");
    else
        probe_int(f->probe, "HSET orders " PEER " 1");
}

bool line_is(struct fixture *f, const char *first, const char *second, const char *third)
{
    const char *const ids[] = {first, second, third};
    char wanted[256] = "";

    for (int i = 0; i < 3 && *ids[i]; i++)
        snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), "%s%s%s",
                 i > 0 ? " " : "", ids[i], line_side());
    return strcmp(probe_list(f->probe, "LRANGE " LINE " 0 -1"), wanted) == 0;
}
