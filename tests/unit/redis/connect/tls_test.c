/* A connection with TLS, step by step: what a wire receives and sends when bytes come and go in
 * pieces, and how it ends. */
#include "tls_peer.h"

#include "base/status.h"
#include "redis/server/command.h"
#include "support/wait.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MANY 100000 /* bytes, more than the buffers of a socket hold here */
#define FEW 8000    /* also, and less than a record */
#define LARGE "0123456789abcdef"

static unsigned n_sends, n_recvs; /* calls for the wire */
static size_t n_offered;          /* bytes, to the last of these sends */
static size_t room = SIZE_MAX;    /* bytes that each send takes */

ssize_t __real_send(int fd, const void *data, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t len, int flags);
ssize_t __real_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);

ssize_t __wrap_send(int fd, const void *data, size_t len, int flags)
{
    if (fd != wire.fd)
        return __real_send(fd, data, len, flags);
    n_sends++;
    n_offered = len;
    return __real_send(fd, data, len < room ? len : room, flags);
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
    n_recvs += fd == wire.fd;
    return __real_recv(fd, data, len, flags);
}

static void send_changed(void)
{
    static const char record[] = "\x17\x03\x03\x00\x20not encrypted, or with another k";

    assert_int_equal(send(peer.fd, record, 37, 0), 37);
}

static void be_blocking(void)
{
    assert_int_equal(fcntl(wire.fd, F_SETFL, fcntl(wire.fd, F_GETFL) & ~O_NONBLOCK), 0);
}

/* ---- receiving ----------------------------------------------------------------------------- */

/* A call may be waiting for a record of 16 kB that comes byte by byte: it must see its deadline
 * pass. */
static void each_fill_receives_once(void **state)
{
    (void)state;

    be_blocking();
    tls_peer_seal("+first\r\n+second\r\n");
    (void)tls_peer_send(1);
    do {
        n_recvs = 0;
        assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);
        assert_int_equal(n_recvs, 1);
        takes_nothing();
        (void)tls_peer_send(1);
    } while (BIO_ctrl_pending(peer.sealed) > 0);
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("first");
    takes("second");
}

/* No poll(2) would tell of bytes that OpenSSL has kept. */
static void a_fill_leaves_no_reply_behind(void **state)
{
    (void)state;

    for (int i = 0; i < 50; i++)
        tls_peer_seal("+reply\r\n"); /* a record each */
    (void)tls_peer_send(SIZE_MAX);
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    for (int i = 0; i < 50; i++)
        takes("reply");
    takes_nothing();
    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);
}

/* A server that refuses a connection closes it behind the reason. */
static void a_reply_that_comes_with_the_end_of_the_handshake_is_received(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        tls_peer_greet(versions[i], "+refused\r\n");
        assert_int_equal(shutdown(peer.fd, SHUT_WR), 0);
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        takes("refused");
        assert_int_equal(relock_wire_fill(&wire), RELOCK_E_CONN);
    }
}

static void a_key_update_is_answered_with_the_next_command(void **state)
{
    char text[64] = "";

    (void)state;

    for (int i = 0; i < 3; i++) {
        assert_int_equal(SSL_key_update(peer.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
        tls_peer_say("+reply\r\n");
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        takes("reply");
        relock_command_words(&wire.out, "PING");
        assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
        assert_int_equal(tls_peer_hear(text, sizeof(text)), strlen("*1\r\n$4\r\nPING\r\n"));
    }
}

static void ask_to_begin_anew(void)
{
    assert_int_equal(SSL_renegotiate(peer.ssl), 1);
    (void)SSL_do_handshake(peer.ssl);
    (void)tls_peer_send(SIZE_MAX);
}

/* With TLS 1.2 a server may want to begin anew. That is refused, and no call waits for it. */
static void a_renegotiation_is_refused(void **state)
{
    (void)state;

    tls_peer_connect(TLS1_2_VERSION);
    tls_peer_say("+reply\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("reply");
    ask_to_begin_anew();
    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);
    takes_nothing();
    relock_command_words(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_OK);
}

static void messages_of_tls_itself_do_not_end_an_idle_connection(void **state)
{
    (void)state;

    assert_false(relock_wire_has_ended(&wire)); /* the tickets */
    assert_int_equal(SSL_key_update(peer.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
    (void)SSL_do_handshake(peer.ssl);
    assert_true(tls_peer_send(SIZE_MAX) > 0);
    assert_false(relock_wire_has_ended(&wire));
    assert_false(relock_wire_has_ended(&wire));
    tls_peer_say("+what nobody has asked for\r\n");
    assert_true(relock_wire_has_ended(&wire));
}

/* ---- sending ------------------------------------------------------------------------------- */

static void fill_out(size_t n)
{
    while (wire.out.len < n)
        relock_buffer_append(&wire.out, LARGE, strlen(LARGE));
    assert_false(wire.out.failed);
}

static size_t hear_all(void)
{
    char text[4096];
    size_t n, all = 0;

    while ((n = tls_peer_hear(text, sizeof(text))) > 0) {
        for (size_t i = 0; i < n; i++)
            assert_true(text[i] == LARGE[(all + i) % strlen(LARGE)]);
        all += n;
    }
    return all;
}

static void be_narrow(void)
{
    const int size = 1; /* the system makes it a few thousand bytes */

    assert_int_equal(setsockopt(wire.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
}

/* Between two attempts further commands may be appended, which moves the buffer. */
static void commands_that_do_not_fit_are_sent_later(void **state)
{
    size_t heard = 0;
    int r;

    (void)state;

    be_narrow();
    fill_out(MANY);
    while ((r = relock_wire_flush(&wire)) == RELOCK_AGAIN) {
        size_t n = hear_all();

        heard += n;
        if (wire.out.len < 2 * MANY)
            fill_out(wire.out.len + 10 * strlen(LARGE));
    }
    assert_int_equal(r, RELOCK_OK);
    heard += hear_all();
    assert_true(heard >= MANY);
    assert_int_equal(heard % strlen(LARGE), 0);
}

/* Bytes count as sent when the server can decrypt them. */
static void bytes_count_as_sent_when_their_record_is(void **state)
{
    size_t heard = 0;
    int r;

    (void)state;

    be_narrow();
    fill_out(FEW);
    assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
    fill_out(MANY);
    while ((r = relock_wire_flush(&wire)) == RELOCK_AGAIN) {
        heard += hear_all();
        assert_int_equal(heard, wire.sent);
    }
    assert_int_equal(r, RELOCK_OK);
}

/* Else a command that the server runs would count as unsent, and be repeated. */
static void bytes_count_as_sent_also_if_an_alert_behind_them_is_not(void **state)
{
    (void)state;

    tls_peer_connect(TLS1_2_VERSION);
    fill_out(FEW);
    room = FEW / 2;
    assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
    ask_to_begin_anew();
    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);
    room = n_offered - FEW / 2;
    (void)relock_wire_flush(&wire);
    assert_true(n_offered > room); /* the alert */
    assert_int_equal(hear_all(), FEW);
    assert_int_equal(wire.out.len - wire.sent, 0);
    room = SIZE_MAX;
}

/* A slow server must not hold a call beyond its deadline. */
static void each_flush_sends_once(void **state)
{
    (void)state;

    be_narrow();
    fill_out(MANY);
    for (int i = 0; i < 3; i++) {
        n_sends = 0;
        assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
        assert_int_equal(n_sends, 1);
        (void)hear_all();
    }
}

/* A calling thread must not spin until the server reads. */
static void a_flush_waits_as_long_as_the_socket_does(void **state)
{
    const struct timeval timeout = {.tv_usec = 50000};
    uint64_t began_ms = now_ms();

    (void)state;

    be_blocking();
    be_narrow();
    assert_int_equal(setsockopt(wire.fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)), 0);
    fill_out(MANY);
    for (int i = 0; i < 10; i++)
        assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
    assert_true(now_ms() - began_ms >= 200);
}

/* There is no room for a farewell. */
static void closing_does_not_wait(void **state)
{
    (void)state;

    while (send(wire.fd, LARGE, strlen(LARGE), MSG_DONTWAIT) > 0)
        continue;
    be_blocking();
    relock_wire_close(&wire);
}

/* Its command counts as unsent, so the server must not be able to decrypt it. */
static void no_farewell_and_no_alert_completes_a_record(void **state)
{
    (void)state;

    for (int fails = 0; fails < 2; fails++) {
        tls_peer_connect(TLS1_3_VERSION);
        be_narrow();
        fill_out(FEW);
        assert_int_equal(relock_wire_flush(&wire), RELOCK_AGAIN);
        assert_int_equal(hear_all(), 0);
        if (fails) {
            send_changed();
            while (relock_wire_fill(&wire) == RELOCK_AGAIN)
                continue;
            assert_int_equal(hear_all(), 0);
        }
        assert_int_equal(wire.sent, 0);
        relock_wire_close(&wire);
        assert_int_equal(hear_all(), 0);
    }
}

static int lengthen_ticket(SSL *ssl, void *arg)
{
    static const char data[600];

    (void)arg;
    return SSL_SESSION_set1_ticket_appdata(SSL_get_session(ssl), data, sizeof(data));
}

static size_t size_of_first_record(void)
{
    unsigned char *bytes;

    assert_true(BIO_get_mem_data(peer.sealed, &bytes) > 5);
    return 5 + ((size_t)bytes[3] << 8) + bytes[4];
}

/* OpenSSL sends nothing until the rest comes. The sender does not wait for that, and must not spin.
 */
static void sending_after_a_part_of_a_message_is_a_failure(void **state)
{
    SSL_CTX *ctx = SSL_get_SSL_CTX(peer.ssl);

    (void)state;

    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN); /* the first tickets */
    (void)SSL_CTX_set_session_ticket_cb(ctx, lengthen_ticket, NULL, NULL);
    assert_int_equal(SSL_set_max_send_fragment(peer.ssl, 512), 1);
    assert_int_equal(SSL_new_session_ticket(peer.ssl), 1);
    assert_int_equal(SSL_do_handshake(peer.ssl), 1);
    (void)SSL_CTX_set_session_ticket_cb(ctx, NULL, NULL, NULL);
    (void)tls_peer_send(size_of_first_record());
    assert_true(BIO_ctrl_pending(peer.sealed) > 0);
    assert_int_equal(relock_wire_fill(&wire), RELOCK_AGAIN);

    relock_command_words(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "has sent part of a TLS message"));
    assert_int_equal(wire.sent, 0);
}

/* ---- endings ------------------------------------------------------------------------------- */

static void fails_with(const char *why)
{
    assert_int_equal(relock_wire_fill(&wire), RELOCK_E_CONN);
    assert_non_null(strstr(wire.why, "localhost:6379: "));
    assert_non_null(strstr(wire.why, why));
}

static void a_server_may_end_with_or_without_a_farewell(void **state)
{
    (void)state;

    /* Only its half: the socket stays open. */
    assert_int_equal(SSL_shutdown(peer.ssl), 0);
    (void)tls_peer_send(SIZE_MAX);
    fails_with("closed the connection");

    tls_peer_connect(TLS1_3_VERSION);
    assert_int_equal(shutdown(peer.fd, SHUT_WR), 0);
    while (relock_wire_fill(&wire) == RELOCK_AGAIN)
        continue;
    assert_non_null(strstr(wire.why, "closed the connection"));
}

static void a_reply_before_the_end_is_received(void **state)
{
    (void)state;

    tls_peer_seal("+last\r\n");
    assert_int_equal(SSL_shutdown(peer.ssl), 0);
    (void)tls_peer_send(SIZE_MAX);
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("last");
    fails_with("closed the connection");
}

static void closing_says_farewell(void **state)
{
    char text[8];

    (void)state;

    relock_wire_close(&wire);
    assert_int_equal(SSL_read(peer.ssl, text, sizeof(text)), 0);
    assert_int_equal(SSL_get_error(peer.ssl, 0), SSL_ERROR_ZERO_RETURN);
}

static void sending_to_a_closed_peer_raises_no_sigpipe(void **state)
{
    (void)state;

    close(peer.fd);
    peer.fd = -1;
    relock_command_words(&wire.out, "PING");
    assert_int_equal(relock_wire_flush(&wire), RELOCK_E_CONN);
    assert_string_not_equal(wire.why, "");
}

static void changed_bytes_are_a_failure(void **state)
{
    char text[8];

    (void)state;

    tls_peer_say("+good\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("good");
    send_changed();
    fails_with("TLS has failed");
    /* And so is each byte that follows. */
    tls_peer_say("+reply\r\n");
    fails_with("");
    takes_nothing();
    /* The server learns that. */
    assert_int_equal(tls_peer_hear(text, sizeof(text)), 0);
    assert_int_equal(ERR_GET_REASON(ERR_get_error()), SSL_R_SSLV3_ALERT_BAD_RECORD_MAC);
}

/* The server has not asked for a certificate, so the client's is not what it rejects. */
static void an_alert_is_about_the_client_certificate_only_if_the_server_asked_for_it(void **state)
{
    static const char alert[] = "\x15\x03\x03\x00\x02\x02\x2a"; /* bad_certificate */

    (void)state;
    assert_non_null(strstr(tls_peer_fail(alert, 7), "the server ends the TLS connection"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_PEER_TEST(each_fill_receives_once),
        TLS_PEER_TEST(a_fill_leaves_no_reply_behind),
        TLS_PEER_TEST(a_reply_that_comes_with_the_end_of_the_handshake_is_received),
        TLS_PEER_TEST(a_key_update_is_answered_with_the_next_command),
        TLS_PEER_TEST(a_renegotiation_is_refused),
        TLS_PEER_TEST(messages_of_tls_itself_do_not_end_an_idle_connection),
        TLS_PEER_TEST(commands_that_do_not_fit_are_sent_later),
        TLS_PEER_TEST(bytes_count_as_sent_when_their_record_is),
        TLS_PEER_TEST(bytes_count_as_sent_also_if_an_alert_behind_them_is_not),
        TLS_PEER_TEST(each_flush_sends_once),
        TLS_PEER_TEST(a_flush_waits_as_long_as_the_socket_does),
        TLS_PEER_TEST(closing_does_not_wait),
        TLS_PEER_TEST(no_farewell_and_no_alert_completes_a_record),
        TLS_PEER_TEST(sending_after_a_part_of_a_message_is_a_failure),
        TLS_PEER_TEST(a_server_may_end_with_or_without_a_farewell),
        TLS_PEER_TEST(a_reply_before_the_end_is_received),
        TLS_PEER_TEST(closing_says_farewell),
        TLS_PEER_TEST(sending_to_a_closed_peer_raises_no_sigpipe),
        TLS_PEER_TEST(changed_bytes_are_a_failure),
        TLS_PEER_TEST(an_alert_is_about_the_client_certificate_only_if_the_server_asked_for_it),
    };

    return cmocka_run_group_tests(tests, tls_peer_start, tls_peer_stop);
}
