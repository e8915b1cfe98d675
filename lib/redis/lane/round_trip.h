/*
 * Round trip - writes commands on the stack and sends them over a lane as one exchange
 *
 *     relock_round_trip_begin(&round_trip);
 *     relock_command_begin(&round_trip.commands, 1);
 *     relock_command_word(&round_trip.commands, "PING");
 *     round_trip.exchange.n_replies = 1;
 *     r = relock_round_trip_ask(&round_trip, lane, deadline_ms);
 *
 * Threads: its caller's.
 */
#ifndef RELOCK_ROUND_TRIP_H
#define RELOCK_ROUND_TRIP_H

#include "redis/lane/exchange.h"
#include "redis/server/command.h"

struct relock_lane;

/* Enough for the commands of a lock whose name has a usual length; longer ones are allocated. */
#define RELOCK_ROUND_TRIP_ROOM 1024

struct relock_round_trip {
    struct relock_exchange exchange;
    struct relock_buffer commands;
    char room[RELOCK_ROUND_TRIP_ROOM];
};

void relock_round_trip_begin(struct relock_round_trip *round_trip);

/* Sends the commands, or kills the connection that `exchange.kills` names. Returns as
 * relock_lane_ask. */
int relock_round_trip_ask(struct relock_round_trip *round_trip, struct relock_lane *lane,
                          uint64_t deadline_ms);

/* The same for commands that do no harm if they run after a failure: it leaves no connection id and
 * no orphan. */
int relock_round_trip_ask_harmless(struct relock_round_trip *round_trip, struct relock_lane *lane,
                                   uint64_t deadline_ms);

#endif
