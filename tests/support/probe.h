/*
 * Probe - a plain connection beside the library
 *
 * Looks at the keys of the library, and plays the part of others, with hiredis alone. Connects
 * again by itself when its connection is gone. A refusal of Redis is written to stderr and comes
 * back as PROBE_REFUSED or as text with a leading '-', so that the assertion on the result fails.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_PROBE_H
#define RELOCK_TEST_PROBE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROBE_REFUSED LLONG_MIN /* an error, or no reply at all */
#define PROBE_TEXT_MAX 8192

struct probe;
struct redisReply;

/* To the unix socket at `path`. */
struct probe *probe_open(const char *path);
struct probe *probe_close(struct probe *probe);

/* For a server on which the command CLIENT has this name; it is not copied. */
void probe_rename_client(struct probe *probe, const char *name);

/* A command in the format of hiredis: %s for an argument, %b for bytes and their size. */

/* Integer replies, texts that are numbers, and arrays of just one of them. Nil is -1, OK is 0. */
long long probe_int(struct probe *probe, const char *format, ...);

/* Texts as they are and integers in decimal; nil is "". Valid until the next call. */
const char *probe_text(struct probe *probe, const char *format, ...);

/* The texts and integers of an array, of the arrays in it, or of another reply, with blanks
 * between; nil is "". Valid until the next call. */
const char *probe_list(struct probe *probe, const char *format, ...);

/* The reply itself, which the caller frees; NULL if none came. */
struct redisReply *probe_reply(struct probe *probe, const char *format, ...);

long long probe_pttl(struct probe *probe, const char *key);

/* Without the records of since when locks are held: server/look/since_test.c. */
long long probe_n_keys(struct probe *probe);

/* A hash with one field: the field ("" if there is no such hash, or it has more) and its value. */
const char *probe_only_field(struct probe *probe, const char *key);
long long probe_only_value(struct probe *probe, const char *key);

/* Lines of CLIENT LIST that contain `text`; all connections, this one too, with "". */
long long probe_n_clients(struct probe *probe, const char *text);

/* The same without connections that subscribe. */
long long probe_n_command_clients(struct probe *probe, const char *text);

/* The id of a connection with subscriptions, by its name up to a colon; 0: there is none. */
long long probe_subscriber_id(struct probe *probe, const char *name);

/* Ends the newest connection without subscriptions. Returns whether there was one. */
bool probe_kill_newest(struct probe *probe);

/* Makes the user anew, with this password, and rights in the words of ACL SETUSER: "~* &* +@all".
 * False if Redis refuses one. */
bool probe_make_user(struct probe *probe, const char *user, const char *password,
                     const char *rights);

#endif
