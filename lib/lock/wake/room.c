/*
 * Window number n begins at n * PERIOD_MS + (n * STEP_MS) % PERIOD_MS on the clock of the server,
 * and is RELOCK_ROOM_MS long. A client whose waiter is about to ask within a window begins its
 * room.
 *
 *   - All clients stay away at the same time, without a message and without a key: with the token
 *     that showed it the other library, each has read the clock of the server.
 *   - The first release within the window begins the rooms of all who wait. So with holds of h ms,
 *     the lock is free for RELOCK_ROOM_MS - h at least, also for a client that asked before that.
 *   - No window has two rooms of one client.
 *   - If the other library had the lock for ENOUGH_MS, hold after hold, the next window has no
 *     room: a library that tries again as soon as it has released is often faster than waiters that
 *     have to be told, and gets a dozen holds of one room. So from one room to the next it is
 *     475 + 1243 ms at most, unless the other library gets as much again without a room.
 *   - In the line (line.c), a release reserves the lock for the client whose turn it is. Its room
 *     ends before the reservation. Else the next client would acquire the lock in the room, and the
 *     one whose turn it was would go to the end of the line.
 *   - STEP_MS is PERIOD_MS divided by the golden ratio. So a window begins 475 or 1243 ms after the
 *     one before it, and never twice in a row after 1243. And windows begin at all moments of the
 *     period alike, so that long holds with a rhythm do not miss them for ever.
 */
#include "lock/wake/wake.h"

#define PERIOD_MS 768
#define STEP_MS 475
#define SEEN_MS 10000

#define RESERVED_MS 100 /* by line_tell.lua */
#define SPARE_MS 5      /* for threads that run late */

#define ENOUGH_MS 256

bool relock_room_is_at(uint64_t server_ms)
{
    uint64_t n = server_ms / PERIOD_MS;

    for (uint64_t at = n > 0 ? n - 1 : 0; at <= n; at++) {
        uint64_t begins_ms = at * PERIOD_MS + at * STEP_MS % PERIOD_MS;

        if (server_ms >= begins_ms && server_ms - begins_ms < RELOCK_ROOM_MS)
            return true;
    }
    return false;
}

bool relock_room_is_due(const struct relock_resource *resource, uint64_t now_ms)
{
    const struct relock_room *room = &relock_resource_contention(resource)->room;

    return now_ms < room->neighbours_until_ms && relock_room_is_at(now_ms + room->ahead_ms);
}

bool relock_room_is_on(const struct relock_resource *resource, uint64_t now_ms)
{
    return now_ms < relock_resource_contention(resource)->room.ends_ms;
}

void relock_room_see(struct relock_resource *resource, uint64_t server_ms, uint64_t sent_ms,
                     uint64_t now_ms)
{
    struct relock_room *room = &resource->contention->room;
    uint64_t error_ms = now_ms - sent_ms;

    if (room->theirs_ms <= resource->taken_ms)
        room->theirs_since_ms = now_ms;
    room->neighbours_until_ms = now_ms + SEEN_MS;
    room->theirs_ms = now_ms;
    room->theirs_for_ms = now_ms - room->theirs_since_ms;
    if (error_ms > room->error_ms && now_ms < room->fresh_until_ms)
        return;
    room->ahead_ms = server_ms - (sent_ms + error_ms / 2);
    room->error_ms = error_ms;
    room->fresh_until_ms = now_ms + SEEN_MS;
}

void relock_room_see_ours(struct relock_resource *resource)
{
    resource->contention->room.theirs_ms = 0;
}

/* The message of a reservation, and the attempt, take a round trip. */
static uint64_t length_of(const struct relock_contention *contention)
{
    uint64_t trip_ms = contention->room.error_ms + SPARE_MS;

    return contention->line.place > 0 ? relock_clock_left(trip_ms, RESERVED_MS) : RELOCK_ROOM_MS;
}

bool relock_room_begin(struct relock_client *client, struct relock_resource *resource,
                       uint64_t now_ms)
{
    struct relock_room *room = &resource->contention->room;
    bool is_skipped;

    if (!relock_room_is_due(resource, now_ms) || now_ms < room->ends_ms + RELOCK_ROOM_MS ||
        room->theirs_ms > resource->taken_ms)
        return false;
    is_skipped = room->theirs_for_ms >= ENOUGH_MS;
    room->theirs_for_ms = 0;
    room->ends_ms = now_ms;
    if (is_skipped)
        return false;
    room->ends_ms += length_of(resource->contention);
    relock_vigil_want(client, resource);
    return true;
}
