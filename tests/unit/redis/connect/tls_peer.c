#include "tls_peer.h"

#include "base/status.h"
#include "redis/connect/private.h"
#include "redis/server/reply.h"
#include "redis/server/tls_context.h"
#include "support/certs.h"
#include "support/leaks.h"
#include "support/server.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_STEPS 20

struct tls_peer peer = {.fd = -1};

static char dir[] = "/tmp/relock-tls-XXXXXX";
static char label[] = "localhost:6379";
static const struct relock_log no_log = {.level = 0};
static struct relock_server server = {.label = label, .log = &no_log};
static SSL_CTX *ctx;
static struct leaks before;

static const char *path_of(const char *name)
{
    static char path[64];

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

/* ---- both sides ---------------------------------------------------------------------------- */

static SSL_CTX *make_ctx(void)
{
    SSL_CTX *new = SSL_CTX_new(TLS_server_method());

    assert_non_null(new);
    assert_int_equal(SSL_CTX_use_certificate_file(new, path_of(CERTS_SERVER), SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(new, path_of(CERTS_KEY), SSL_FILETYPE_PEM), 1);
    return new;
}

static void remove_dir(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

int tls_peer_start(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(dir));
    if (!certs_make(dir)) {
        remove_dir();
        print_error("there is no openssl command that makes certificates: skipped\n");
        exit(SERVER_EXIT_SKIP);
    }
    ctx = make_ctx();
    return 0;
}

int tls_peer_stop(void **state)
{
    (void)state;
    SSL_CTX_free(ctx);
    remove_dir();
    return 0;
}

int tls_peer_begin(void **state)
{
    struct relock_options options = {.tls_ca_file = path_of(CERTS_CA)};

    (void)state;
    before = leaks_now();
    assert_int_equal(relock_tls_context_new(&options, "localhost", &no_log, &server.tls),
                     RELOCK_OK);
    relock_wire_init(&wire, label);
    tls_peer_connect(TLS1_3_VERSION);
    return 0;
}

static void hang_up(void)
{
    SSL_free(peer.ssl);
    if (peer.fd >= 0)
        close(peer.fd);
    peer = (struct tls_peer){.fd = -1};
}

int tls_peer_end(void **state)
{
    (void)state;
    relock_wire_deinit(&wire);
    server.tls = relock_tls_context_free(server.tls);
    hang_up();
    return leaks_none_since(&before) ? 0 : -1;
}

/* ---- the handshake ------------------------------------------------------------------------- */

/* The peer reads from the socket, and writes into a buffer. */
static void make_peer(int fd, int version)
{
    peer = (struct tls_peer){.fd = fd, .ssl = SSL_new(ctx), .sealed = BIO_new(BIO_s_mem())};
    assert_non_null(peer.ssl);
    SSL_set0_rbio(peer.ssl, BIO_new_socket(fd, BIO_NOCLOSE));
    SSL_set0_wbio(peer.ssl, peer.sealed);
    SSL_set_min_proto_version(peer.ssl, version);
    SSL_set_max_proto_version(peer.ssl, version);
    SSL_set_accept_state(peer.ssl);
}

void tls_peer_connect(int version)
{
    tls_peer_greet(version, "");
}

void tls_peer_greet(int version, const char *text)
{
    struct relock_socket socket;
    int fds[2];
    int r = RELOCK_AGAIN;

    relock_wire_close(&wire);
    hang_up();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    make_peer(fds[1], version);
    socket = (struct relock_socket){fds[0], relock_tls_new(&server)};
    assert_non_null(socket.tls);
    for (int i = 0; i < MAX_STEPS && (r == RELOCK_AGAIN || !SSL_is_init_finished(peer.ssl)); i++) {
        r = r == RELOCK_AGAIN ? relock_socket_shake(socket) : r;
        if (SSL_do_handshake(peer.ssl) == 1 && *text) {
            tls_peer_seal(text);
            text = "";
        }
        (void)tls_peer_send(SIZE_MAX);
    }
    assert_int_equal(r, RELOCK_OK);
    assert_int_equal(relock_wire_open(&wire, socket), RELOCK_OK);
}

const char *tls_peer_fail(const char *bytes, size_t len)
{
    static char why[RELOCK_WHY_MAX];
    struct relock_socket socket;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    socket = (struct relock_socket){fds[0], relock_tls_new(&server)};
    assert_non_null(socket.tls);
    assert_int_equal(relock_socket_shake(socket), RELOCK_AGAIN);
    assert_int_equal(send(fds[1], bytes, len, MSG_NOSIGNAL), len);
    assert_int_equal(relock_socket_shake(socket), RELOCK_E_CONN);
    snprintf(why, sizeof(why), "%s", relock_tls_why(socket.tls));
    relock_socket_close(socket);
    close(fds[1]);
    return why;
}

bool tls_peer_resumed(void)
{
    return SSL_session_reused(peer.ssl);
}

/* ---- talking ------------------------------------------------------------------------------- */

void tls_peer_seal(const char *text)
{
    assert_int_equal(SSL_write(peer.ssl, text, (int)strlen(text)), strlen(text));
}

size_t tls_peer_send(size_t n)
{
    char *bytes;
    size_t len = (size_t)BIO_get_mem_data(peer.sealed, &bytes);
    char taken[4096];

    if (len > n)
        len = n;
    assert_in_range(len, 0, sizeof(taken));
    if (len > 0)
        assert_int_equal(BIO_read(peer.sealed, taken, (int)len), len);
    assert_int_equal(send(peer.fd, taken, len, MSG_NOSIGNAL), len);
    return len;
}

void tls_peer_say(const char *text)
{
    tls_peer_seal(text);
    (void)tls_peer_send(SIZE_MAX);
}

size_t tls_peer_hear(char *text, size_t size)
{
    int n = SSL_read(peer.ssl, text, (int)size);

    return n > 0 ? (size_t)n : 0;
}
