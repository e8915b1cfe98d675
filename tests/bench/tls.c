/*
 * The same as the row uncontended, over TLS. The bare side formats and parses with hiredis, and
 * calls OpenSSL on a blocking socket. Uses a server of its own.
 */
#include "bare.h"
#include "pairs.h"
#include "support/server.h"

#include <arpa/inet.h>
#include <hiredis/hiredis.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct tls_side {
    SSL_CTX *ctx;
    SSL *ssl;
    int fd;
    redisReader *reader;
    struct bare_lock lock;
};

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) != 0)
        die("no connection to the server with TLS");
    return fd;
}

static void side_open(struct tls_side *side, const struct server *server)
{
    side->ctx = SSL_CTX_new(TLS_client_method());
    side->fd = connect_to(server->tls_port);
    side->reader = redisReaderCreate();
    if (!side->ctx || !side->reader || SSL_CTX_load_verify_file(side->ctx, server->ca_file) != 1)
        die("bare TLS: no context");
    SSL_CTX_set_verify(side->ctx, SSL_VERIFY_PEER, NULL);
    side->ssl = SSL_new(side->ctx);
    if (!side->ssl || SSL_set_fd(side->ssl, side->fd) != 1 || SSL_connect(side->ssl) != 1)
        die("bare TLS: no handshake");
}

static void side_close(struct tls_side *side)
{
    SSL_free(side->ssl);
    SSL_CTX_free(side->ctx);
    redisReaderFree(side->reader);
    close(side->fd);
}

static redisReply *ask(struct tls_side *side, int n, const char *const *args, const size_t *lens)
{
    char bytes[16384], *command;
    long long len = redisFormatCommandArgv(&command, n, (const char **)args, lens);
    void *reply = NULL;

    if (len < 0 || SSL_write(side->ssl, command, (int)len) != len)
        die("bare TLS: a command was not sent");
    redisFreeCommand(command);
    while (!reply) {
        int n_read = SSL_read(side->ssl, bytes, sizeof(bytes));

        if (n_read <= 0 || redisReaderFeed(side->reader, bytes, (size_t)n_read) != REDIS_OK ||
            redisReaderGetReply(side->reader, &reply) != REDIS_OK)
            die("bare TLS: no reply");
    }
    return reply;
}

static void pair_bare(void *arg)
{
    struct tls_side *side = arg;
    redisReply *reply = ask(side, BARE_TAKE_ARGS, side->lock.take, side->lock.take_len);

    if (reply->type != REDIS_REPLY_NIL)
        die("%s is held by another", side->lock.name);
    freeReplyObject(reply);
    reply = ask(side, BARE_GIVE_ARGS, side->lock.give, side->lock.give_len);
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer < 1)
        die("%s was not held", side->lock.name);
    freeReplyObject(reply);
}

static void measure(const struct plan *plan, struct result *result, const struct server *server)
{
    struct relock_client *client =
        ours_client_with(server->tls_url, &(struct relock_options){.tls_ca_file = server->ca_file});
    struct redisContext *probe = bare_connect(server->unix_url); /* loads the scripts, too */
    char ours_name[NAME_MAX_LEN], bare_name[NAME_MAX_LEN];
    struct tls_side bare = {0};
    struct relock_lock *lock;

    row_name(ours_name, "ours", 0);
    row_name(bare_name, "bare", 0);
    lock = ours_lock(client, ours_name);
    bare_lock_init(&bare.lock, bare_name, 1);
    side_open(&bare, server);
    pairs_measure(plan, result, "two bare EVALSHA over OpenSSL, p50",
                  (struct pair_side){pair_ours, lock}, (struct pair_side){pair_bare, &bare});

    side_close(&bare);
    relock_lock_free(lock);
    relock_client_free(client);
    must_be_gone(probe, ours_name);
    must_be_gone(probe, bare_name);
    bare_close(probe);
}

struct server *tls_server(void)
{
    return server_start(&(struct server_options){.tls = true});
}

void row_tls(const struct plan *plan, struct report *report)
{
    struct result *result = report_add(report, "tls", "uncontended lock+unlock over TLS, 1 thread");
    struct server *server = tls_server();

    if (server)
        measure(plan, result, server);
    else
        result_note(result, "there is no server with TLS, or no openssl command");
    server_stop(server);
}
