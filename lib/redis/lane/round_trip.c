#include "redis/lane/round_trip.h"

#include "redis/connect/conn_id.h"
#include "redis/lane/lane.h"
#include "redis/lane/orphan.h"

#include <relock.h>

#include <stdio.h>

void relock_round_trip_begin(struct relock_round_trip *round_trip)
{
    relock_buffer_lend(&round_trip->commands, round_trip->room, sizeof(round_trip->room));
    round_trip->exchange = (struct relock_exchange){0};
}

int relock_round_trip_ask(struct relock_round_trip *round_trip, struct relock_lane *lane,
                          uint64_t deadline_ms)
{
    struct relock_exchange *exchange = &round_trip->exchange;
    int r = RELOCK_E_NOMEM;

    if (round_trip->commands.failed) {
        (void)snprintf(exchange->why, sizeof(exchange->why), "out of memory for a command");
    } else {
        exchange->commands.data = round_trip->commands.data;
        exchange->commands.len = round_trip->commands.len;
        r = relock_lane_ask(lane, exchange, deadline_ms);
    }
    relock_buffer_deinit(&round_trip->commands);
    return r;
}

int relock_round_trip_ask_harmless(struct relock_round_trip *round_trip, struct relock_lane *lane,
                                   uint64_t deadline_ms)
{
    int r = relock_round_trip_ask(round_trip, lane, deadline_ms);

    if (r < 0 && round_trip->exchange.sent) {
        relock_conn_id_unref(round_trip->exchange.conn_id);
        relock_orphan_drop(round_trip->exchange.orphan);
    }
    return r;
}
