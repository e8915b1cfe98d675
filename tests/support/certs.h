/*
 * Certs - certificates for a test, good ones and bad ones
 *
 * The openssl command makes them. All certificates for servers have the same key, so that a server
 * that runs can be given another one.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_CERTS_H
#define RELOCK_TEST_CERTS_H

#include <stdbool.h>

/* The names of the files. */
#define CERTS_CA "ca.pem"             /* has signed those that do not say otherwise */
#define CERTS_KEY "key.pem"           /* of all servers */
#define CERTS_SERVER "server.pem"     /* for localhost, 127.0.0.1 and ::1 */
#define CERTS_EXPIRED "expired.pem"   /* since yesterday */
#define CERTS_OTHER "other.pem"       /* for other.example */
#define CERTS_STRANGER "stranger.pem" /* signed by CERTS_STRANGERS_CA */
#define CERTS_SELF "self.pem"         /* signed by itself */
#define CERTS_CLIENT "client.pem"     /* for a client, with its key in the same file */
#define CERTS_CLIENT_KEY "client.key"
#define CERTS_LOCKED_KEY "locked.key" /* the same with a passphrase */
#define CERTS_OTHER_TYPE_KEY "other-type.key"
#define CERTS_STRANGE_CLIENT "strange-client.pem"
#define CERTS_STRANGERS_CA "strangers-ca.pem"

/* Fills the folder, which exists. False, and a line on stderr, if there is no openssl command. */
bool certs_make(const char *dir);

#endif
