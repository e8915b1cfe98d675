/*
 * Proxy - a network between client and server that breaks on request
 *
 * Listens on an address of its own and connects each client to the server's unix socket. It sees
 * commands and replies one by one, so a test says which command is to meet which trouble, and
 * waits until it has. A connection has no holes: lost bytes take all that follow with them.
 *
 * Commands are named by their first words, "SUBSCRIBE" or "CLIENT KILL"; "*" is any one word and ""
 * any command. An EVALSHA of a script that proxy_name_script() made known begins with that name in
 * place of the first two words: "unlock 1 orders * 0". A reply that is an error is seen too, and
 * begins with its code: "-LOADING".
 *
 * Threads: one at a time calls; the proxy has one of its own.
 */
#ifndef RELOCK_TEST_PROXY_H
#define RELOCK_TEST_PROXY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proxy;
struct proxy_rule;
struct server;

/* The fate of a command, of its reply, and of the connection. */
enum proxy_deed {
    PROXY_PASS,           /* goes on, and is waited for */
    PROXY_HOLD,           /* is kept back, as are later bytes, even if the client hangs up */
    PROXY_LOSE,           /* is lost; the connection stays and nothing gets through any more */
    PROXY_CUT,            /* is lost with the connection */
    PROXY_HOLD_REPLY,     /* runs; the reply is kept back, as are later bytes */
    PROXY_SWALLOW,        /* runs; the reply is lost and the connection stays */
    PROXY_CUT_UNANSWERED, /* runs; the reply is lost with the connection */
    PROXY_CUT_ANSWERED,   /* runs and is answered; the connection goes then */
    PROXY_REFUSE,         /* does not run, and the proxy answers with PROXY_REFUSAL */
};

/* The words of a proxy that lacks a command: no server has them. */
#define PROXY_REFUSAL "ERR it is not in this plan"

/* The outcome of a command. */
enum proxy_fate {
    PROXY_PENDING,  /* neither yet */
    PROXY_ANSWERED, /* the server ran or refused it */
    PROXY_ENDED,    /* the connection to the server ended: it will not run */
};

/* To the unix socket of this server. Listens at `path`, NULL: on a free port of the loopback. With
 * RELOCK_TEST_TLS in the environment, it listens on such a port in any case, and clients speak TLS:
 * what happens to commands and replies then happens to the encrypted bytes. */
struct proxy *proxy_start(const struct server *server, const char *path);
struct proxy *proxy_stop(struct proxy *proxy);

/* For relock_options. */
const char *proxy_url(const struct proxy *proxy);

/* Back to normal: forgets all rules and records, and ends the connections that are held back. */
void proxy_reset(struct proxy *proxy);

void proxy_name_script(struct proxy *proxy, const char *name, const char *sha1);

/* ---- single commands ----------------------------------------------------------------------- */

/* The next such command; every one until it is let go. The rule lives until the reset. */
struct proxy_rule *proxy_next(struct proxy *proxy, enum proxy_deed deed, const char *words);
struct proxy_rule *proxy_each(struct proxy *proxy, enum proxy_deed deed, const char *words);

/* Waits until `n` commands have met the rule. */
bool proxy_met(struct proxy_rule *rule, size_t n);

/* Sends the bytes that were kept back. Nothing meets the rule any more. */
void proxy_let_go(struct proxy_rule *rule);

/* Waits for the outcome of all commands that met the rule, and returns that of the last. */
enum proxy_fate proxy_fate(struct proxy_rule *rule);

/* ---- all of it ----------------------------------------------------------------------------- */

/* Ends the connections on which such a command was sent; all with "". */
void proxy_cut(struct proxy *proxy, const char *words);

/* Those connections stay, and nothing gets through either way. New ones are as usual. */
void proxy_stall(struct proxy *proxy, const char *words);
void proxy_flow(struct proxy *proxy);

/* New connections lead to this server from now on. Those that exist stay where they are. */
void proxy_lead_to(struct proxy *proxy, const struct server *server);

/* New connections are refused, as by a server that is not there; or no more. */
void proxy_refuse(struct proxy *proxy, bool refuse);

/* From now on the bytes of either side arrive that much later, in order: a round trip takes twice
 * that. 0: no delay. */
void proxy_delay(struct proxy *proxy, uint64_t delay_ms);

/* The next `n` connections end when so many bytes have gone to the client; at least one. */
void proxy_break(struct proxy *proxy, unsigned n, size_t after);

/* Clients get one byte at a time; over a unix socket, the next when they have read that. */
void proxy_by_byte(struct proxy *proxy, bool by_byte);

/* ---- recorded commands --------------------------------------------------------------------- */

/* How many such commands came; waits until there are `n`. */
size_t proxy_count(struct proxy *proxy, const char *words);
bool proxy_counts(struct proxy *proxy, const char *words, size_t n);

/* Places among all that came, from 1: that of the last to meet the rule, and of the next such
 * command behind a place, which is waited for; 0 if there is none. */
size_t proxy_place(struct proxy_rule *rule);
size_t proxy_next_place(struct proxy *proxy, size_t place, const char *words);

/* Connections now. */
size_t proxy_n_connections(struct proxy *proxy);

/* Prints the records on stderr. */
void proxy_print(struct proxy *proxy);

#endif
