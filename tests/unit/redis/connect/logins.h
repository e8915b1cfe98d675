/*
 * Logins - a login without a connection: a test reads its commands and gives it the replies
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_LOGINS_H
#define RELOCK_TEST_LOGINS_H

#include "base/status.h"
#include "redis/connect/connect.h"
#include "support/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define HELLO(mode, role) "*6\r\n$5\r\nproto\r\n:2\r\n$4\r\nmode\r\n" mode "$4\r\nrole\r\n" role
#define MASTER HELLO("$10\r\nstandalone\r\n", "$6\r\nmaster\r\n")
#define RUN "$20\r\n# Server\r\nrun_id:1\r\n\r\n"
#define INFO "id=7 addr=127.0.0.1:40312 laddr=127.0.0.1:6379 fd=8 name= db=0\n"

#define LOGIN_LABEL "h:6379"
#define LOGIN_NAME "shop:id"

/* At first the server has all that a login can use: user, password, name and database. */
extern struct relock_server server;
extern struct relock_login login;
extern struct log *lines;

/* A server whose login needs no option. */
struct relock_server logins_plain_server(void);

int logins_begin(void **state);
int logins_end(void **state);

void begins(void);

/* Passes the bytes of a reply to the login; take_info() passes a string reply. */
int take(const char *bytes);
int take_info(const char *info);

/* Passes these replies, ended by NULL. None of them ends the login. */
void take_more(const char *bytes, ...) __attribute__((sentinel));

/* What the login has appended since it began, or since this was called before. */
const char *asks(void);

/* The login to a plain server begins, and gets the reply to HELLO. */
void begins_plainly(void);

#define LOGIN_TEST(function) cmocka_unit_test_setup_teardown(function, logins_begin, logins_end)

#endif
