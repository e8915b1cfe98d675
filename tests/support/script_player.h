/*
 * Script player - plays the steps of a script
 *
 * The half of the script server that talks: its listener, its connections, and one function that
 * plays one step.
 *
 * Threads: the one that plays; `ending_fd` is made readable by another, to end its waits.
 */
#ifndef RELOCK_TEST_SCRIPT_PLAYER_H
#define RELOCK_TEST_SCRIPT_PLAYER_H

#include <stdbool.h>

#define SCRIPT_MAX_CONNECTIONS 64

enum script_kind {
    SCRIPT_ACCEPT,
    SCRIPT_TURN_TO,
    SCRIPT_EXPECT,
    SCRIPT_EXPECT_END,
    SCRIPT_ANSWER,
    SCRIPT_ANSWER_BYTEWISE,
    SCRIPT_ANSWER_ALL,
    SCRIPT_CLOSE,
};

struct script_step {
    enum script_kind kind;
    char *text;
    unsigned connection;
};

struct script_connection;

struct script_player {
    int listener;
    int ending_fd; /* eventfd */
    struct script_connection *connections[SCRIPT_MAX_CONNECTIONS];
    unsigned n_connections;
    unsigned current;
};

/* Listens on a unix socket at `path`. */
void script_player_init(struct script_player *player, const char *path);
void script_player_deinit(struct script_player *player);

/* False, with a line on stderr, when something else happens or nothing does. */
bool script_player_play(struct script_player *player, const struct script_step *step);

/* Closes all connections and the listener. */
void script_player_close(struct script_player *player);

#endif
