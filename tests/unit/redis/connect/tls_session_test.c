/* Connections with TLS that resume the session of an earlier one. */
#include "tls_peer.h"

#include "base/clock.h"
#include "base/status.h"

#define HOUR_MS 3600000

static uint64_t passed_ms; /* beside what the clock says */

uint64_t __real_relock_clock_now_ms(void);
uint64_t __wrap_relock_clock_now_ms(void);

uint64_t __wrap_relock_clock_now_ms(void)
{
    return __real_relock_clock_now_ms() + passed_ms;
}

static void a_new_connection_resumes_the_session(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        tls_peer_connect(versions[i]);
        tls_peer_say("+reply\r\n"); /* in TLS 1.3 the ticket comes before it */
        assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
        takes("reply");
        for (int n = 0; n < 3; n++) {
            tls_peer_connect(versions[i]);
            assert_true(tls_peer_resumed());
        }
    }
}

/* Otherwise a session that the server cannot handle would fail each attempt. */
static void a_failed_handshake_forgets_the_session(void **state)
{
    (void)state;

    tls_peer_say("+reply\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("reply");
    (void)tls_peer_fail("\x16\x03\x03\x00\x04\x02\x00\x00", 9); /* no message */
    tls_peer_connect(TLS1_3_VERSION);
    assert_false(tls_peer_resumed());
}

static void connect_and_receive(int version)
{
    tls_peer_connect(version);
    tls_peer_say("+reply\r\n");
    assert_int_equal(relock_wire_fill(&wire), RELOCK_OK);
    takes("reply");
}

/* Each connection may bring a new session. The certificate is as old as the first. */
static void a_certificate_is_verified_again_after_an_hour(void **state)
{
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};

    (void)state;

    for (size_t i = 0; i < 2; i++) {
        passed_ms += 2 * HOUR_MS;
        connect_and_receive(versions[i]);
        assert_false(tls_peer_resumed());
        for (int n = 0; n < 3; n++) {
            passed_ms += HOUR_MS / 4;
            connect_and_receive(versions[i]);
            assert_true(tls_peer_resumed());
        }
        passed_ms += HOUR_MS / 4;
        connect_and_receive(versions[i]);
        assert_false(tls_peer_resumed());
        connect_and_receive(versions[i]);
        assert_true(tls_peer_resumed());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_PEER_TEST(a_new_connection_resumes_the_session),
        TLS_PEER_TEST(a_failed_handshake_forgets_the_session),
        TLS_PEER_TEST(a_certificate_is_verified_again_after_an_hour),
    };

    return cmocka_run_group_tests(tests, tls_peer_start, tls_peer_stop);
}
