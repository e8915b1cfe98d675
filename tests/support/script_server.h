/*
 * Script server - plays a server, step by step
 *
 * For events that a real server cannot produce at the right moment: silence, closing in the
 * middle of a reply, answers byte by byte. It listens on a unix socket in a folder of its own. A
 * test lists the expected commands and the answers beforehand; a thread plays these steps in
 * their order, and the test goes on meanwhile:
 *
 *     script_accept(server);
 *     script_expect(server, "HELLO");
 *     script_answer(server, "-LOADING wait a moment\r\n");
 *     script_close(server);
 *     ...
 *     assert_true(script_played(server));
 *
 * A step whose event does not come within SOON_MS, or another one, ends the play: the cause is
 * printed on stderr, and all connections are closed, so that no test waits in vain.
 *
 * Threads: steps are added, awaited and ended by one.
 */
#ifndef RELOCK_TEST_SCRIPT_SERVER_H
#define RELOCK_TEST_SCRIPT_SERVER_H

#include <stdbool.h>

struct script_server;

struct script_server *script_server_start(void);

/* Ends it at once, wherever it is, and frees. Takes NULL. False if steps were added that no
 * script_played() has seen done. */
bool script_server_end(struct script_server *server);

/* unix://... */
const char *script_server_url(const struct script_server *server);

/* The next connection comes. They are numbered from 0; the steps that follow are about it. */
void script_accept(struct script_server *server);

/* The steps that follow are about that connection. */
void script_turn_to(struct script_server *server, unsigned connection);

/* The next command comes: these words, with blanks between them; `*` stands for any word. */
void script_expect(struct script_server *server, const char *words);

/* The other side closes, and sends no command before. */
void script_expect_end(struct script_server *server);

/* Bytes go out, in one piece, or each when the one before has been read. */
void script_answer(struct script_server *server, const char *bytes);
void script_answer_bytewise(struct script_server *server, const char *bytes);

/* The same answer to every command, until the other side closes. */
void script_answer_all(struct script_server *server, const char *bytes);

void script_close(struct script_server *server);

/* The answer to HELLO of a master, or of a Sentinel that does not tell its mode. */
#define SCRIPT_HELLO "*2\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"

/* A connection comes and logs in without user and name. The server calls it `id`, and its address
 * /script:`id`; it says that it is in its first run, or in that one. */
void script_welcome(struct script_server *server, unsigned id);
void script_welcome_in_run(struct script_server *server, const char *run, unsigned id);

#define SCRIPT_FIRST_RUN "first"

/* Waits until all steps have been played. False when one could not be. */
bool script_played(struct script_server *server);

#endif
