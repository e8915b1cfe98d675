/* Several servers at once: each function of support/servers.h works. */
#include "support/actor.h"
#include "support/port.h"
#include "support/servers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define DELAY_MS 500
#define N_PORTS 250

static bool keeps_data; /* the program's arguments */

static bool has_key(struct servers *s, size_t i)
{
    return probe_int(s->probe[i], "EXISTS key") == 1;
}

static void set_key_everywhere(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(probe_int(s->probe[i], "SET key %d", (int)i), 0);
}

static void delete_key_everywhere(struct servers *s)
{
    for (size_t i = 0; i < s->n; i++)
        probe_int(s->probe[i], "DEL key");
}

static void each_server_has_keys_of_its_own(void **state)
{
    struct servers *s = *state;

    set_key_everywhere(s);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(probe_int(s->probe[i], "GET key"), i);
    delete_key_everywhere(s);
}

static void a_restarted_server_has_only_its_saved_keys(void **state)
{
    struct servers *s = *state;

    set_key_everywhere(s);
    server_restart(s->server[1]);
    server_kill(s->server[2]);
    assert_int_equal(s->server[2]->pid, 0);
    servers_up(s);
    assert_true(has_key(s, 0));
    assert_int_equal(has_key(s, 1), keeps_data);
    assert_int_equal(has_key(s, 2), keeps_data);
    delete_key_everywhere(s);
}

static void a_server_that_forgets_comes_back_empty(void **state)
{
    struct servers *s = *state;

    set_key_everywhere(s);
    server_forget(s->server[2]);
    server_restart(s->server[2]);
    assert_true(has_key(s, 0));
    assert_false(has_key(s, 2));
    delete_key_everywhere(s);
}

static int bind_port(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    r = bind(fd, (struct sockaddr *)&address, sizeof(address));
    close(fd);
    return r;
}

static int port_of(const char *url)
{
    return atoi(strrchr(url, ':') + 1);
}

static void the_port_of_a_stopped_server_is_not_reused(void **state)
{
    struct servers *s = *state;

    server_kill(s->server[4]);
    assert_int_equal(bind_port(s->server[4]->port), -1);
}

static void the_port_of_a_proxy_that_refuses_is_not_reused(void **state)
{
    struct servers *s = *state;
    struct proxy *proxy = proxy_start(s->server[0], NULL);

    proxy_refuse(proxy, true);
    assert_int_equal(bind_port(port_of(proxy_url(proxy))), -1);
    proxy_stop(proxy);
}

/* The number of a node's second port follows from the first, so another program may already have
 * that port. With so many ports, this happens several times. */
static void a_port_is_reserved_once(void **state)
{
    struct port port[2 * N_PORTS];
    bool is_taken[UINT16_MAX + 1] = {false};

    (void)state;
    for (size_t i = 0; i < 2 * N_PORTS; i++) {
        assert_true(port_reserve(&port[i], i >= N_PORTS));
        assert_false(is_taken[port[i].number]);
        is_taken[port[i].number] = true;
        if (i < N_PORTS)
            continue;
        assert_false(is_taken[port[i].number + PORT_BUS_DISTANCE]);
        is_taken[port[i].number + PORT_BUS_DISTANCE] = true;
    }
    for (size_t i = 0; i < 2 * N_PORTS; i++)
        port_release(&port[i]);
}

static void a_client_made_before_its_server_starts_can_lock_afterwards(void **state)
{
    struct servers *s = *state;
    struct relock_client *client;
    struct relock_lock *lock;

    server_kill(s->server[1]);
    client = servers_client(s, 1, &(struct relock_options){.command_timeout_ms = slow_ms(SOON_MS)});
    lock = fixture_lock(s->f, client, "orders");
    servers_up(s);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(s->probe[0]), 0);
    assert_int_equal(probe_n_keys(s->probe[1]), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_paused_server_blocks_its_callers(void **state)
{
    struct servers *s = *state;
    struct relock_client *client = servers_client(s, 3, NULL);
    struct relock_lock *lock = fixture_lock(s->f, client, "orders");
    struct actor *actor = actor_start();

    server_pause(s->server[3]);
    actor_begin_lock(actor, lock);
    let_pass(50);
    assert_true(actor_is_busy(actor));
    server_resume(s->server[3]);
    assert_gets_in(actor, lock);
}

static void a_delay_affects_one_server_in_both_directions(void **state)
{
    struct servers *s = *state;
    uint64_t least_ms[2] = {UINT64_MAX, UINT64_MAX}; /* a machine may stall, but not always */

    for (size_t i = 0; i < 2; i++) {
        struct relock_client *client = servers_client_by_proxy(s, i, NULL);
        struct relock_lock *lock = fixture_lock(s->f, client, "orders");

        assert_result(relock_lock(lock), RELOCK_OK); /* connected from now on */
        assert_result(relock_unlock(lock), RELOCK_OK);
        for (int n = 0; n < 3 && least_ms[i] >= 2 * slow_ms(DELAY_MS) - 1; n++) {
            uint64_t began_ms, took_ms;

            proxy_delay(s->proxy[1], slow_ms(DELAY_MS));
            began_ms = now_ms();
            assert_result(relock_lock(lock), RELOCK_OK);
            took_ms = now_ms() - began_ms;
            least_ms[i] = took_ms < least_ms[i] ? took_ms : least_ms[i];
            proxy_delay(s->proxy[1], 0);
            assert_result(relock_unlock(lock), RELOCK_OK);
        }
    }
    assert_true(least_ms[0] < 2 * slow_ms(DELAY_MS) - 1);
    assert_true(least_ms[1] >= 2 * slow_ms(DELAY_MS) - 1);
}

static void a_stalled_proxy_affects_one_server(void **state)
{
    struct servers *s = *state;
    struct actor *actors[2];
    struct relock_lock *locks[2];

    for (size_t i = 0; i < 2; i++) {
        actors[i] = actor_start();
        locks[i] = fixture_lock(s->f, servers_client_by_proxy(s, i, NULL), "orders");
        assert_result(actor_lock(actors[i], locks[i]), RELOCK_OK);
        assert_result(actor_unlock(actors[i], locks[i]), RELOCK_OK);
    }
    proxy_stall(s->proxy[1], "");
    for (size_t i = 0; i < 2; i++)
        actor_begin_lock(actors[i], locks[i]);
    assert_result(actor_result(actors[0]), RELOCK_OK);
    assert_true(actor_is_busy(actors[1]));
    proxy_flow(s->proxy[1]);
    assert_result(actor_result(actors[1]), RELOCK_OK);
    for (size_t i = 0; i < 2; i++)
        assert_result(actor_unlock(actors[i], locks[i]), RELOCK_OK);
}

static int start(void **state)
{
    return servers_start_with(state, 5, &(struct server_options){.keeps_data = keeps_data});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(each_server_has_keys_of_its_own),
        SERVERS_TEST(a_restarted_server_has_only_its_saved_keys),
        SERVERS_TEST(a_server_that_forgets_comes_back_empty),
        SERVERS_TEST(the_port_of_a_stopped_server_is_not_reused),
        SERVERS_TEST(the_port_of_a_proxy_that_refuses_is_not_reused),
        SERVERS_TEST(a_port_is_reserved_once),
        SERVERS_TEST(a_client_made_before_its_server_starts_can_lock_afterwards),
        SERVERS_TEST(a_paused_server_blocks_its_callers),
        SERVERS_TEST(a_delay_affects_one_server_in_both_directions),
        SERVERS_TEST(a_stalled_proxy_affects_one_server),
    };

    keeps_data = argc > 1 && strcmp(argv[1], "keep") == 0;
    return cmocka_run_group_tests(tests, start, servers_stop);
}
