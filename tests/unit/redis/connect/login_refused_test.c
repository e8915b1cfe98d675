/* Logins that the server refuses, and passwords that stay out of the log. */
#include "logins.h"

#include <stdio.h>

static const struct refusal {
    int n_ok; /* replies before the refusal */
    const char *error;
    int result;
} refusals[] = {
    {0, "WRONGPASS invalid username-password pair or user is disabled.", RELOCK_E_AUTH},
    {0, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {2, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {2, "NOAUTH Authentication required.", RELOCK_E_AUTH},
    {2, "ERR max number of clients reached", RELOCK_E_CONN},
    {3, "ERR DB index is out of range", RELOCK_E_SERVER},
    {3, "NOPERM this user has no permissions to run the 'select' command", RELOCK_E_AUTH},
    {3, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {3, "MASTERDOWN Link with MASTER is down", RELOCK_E_CONN},
    {4, "NOAUTH Authentication required.", RELOCK_E_AUTH},
    {5, "NOAUTH Authentication required.", RELOCK_E_AUTH},
    {5, "ERR max number of clients reached", RELOCK_E_CONN},
    {4, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {1, "NOAUTH HELLO must be called with the client already authenticated", RELOCK_E_AUTH},
    {1, "DENIED Redis is running in protected mode", RELOCK_E_SERVER},
    {1, "LOADING Redis is loading the dataset in memory", RELOCK_E_CONN},
    {1, "ERR max number of clients reached", RELOCK_E_CONN},
};

static void a_refusal_ends_the_login_and_says_why(void **state)
{
    (void)state;

    for (size_t i = 0; i < COUNT(refusals); i++) {
        char bytes[128];

        begins();
        for (int n = 0; n < refusals[i].n_ok; n++)
            assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
        snprintf(bytes, sizeof(bytes), "-%s\r\n", refusals[i].error);
        assert_int_equal(take(bytes), refusals[i].result);
        assert_non_null(strstr(login.why, refusals[i].error));
        assert_non_null(strstr(login.why, LOGIN_LABEL));
        assert_null(strstr(login.why, "hidden"));
        assert_null(login.conn_id);
    }
}

/* A server that does not know AUTH repeats the password, so its words do not get into the log. */
static void an_error_of_auth_is_told_in_words_of_ours(void **state)
{
    static const struct {
        const char *reply;
        int result;
        const char *why;
    } replies[] = {
        {"-ERR unknown command 'AUTH', with args beginning with: 'u' 'hidden'\r\n", RELOCK_E_AUTH,
         "h:6379: AUTH: an error that may contain the password"},
        {"-ERR invalid password\r\n", RELOCK_E_AUTH,
         "h:6379: AUTH: an error that may contain the password"},
        {"-ERR AUTH <password> called without any password configured for the default user. Are "
         "you sure your configuration is correct?\r\n",
         RELOCK_E_AUTH,
         "h:6379: AUTH: this server needs no password: leave it out of the url and the options"},
        {"-ERR max number of clients reached\r\n", RELOCK_E_CONN,
         "h:6379: AUTH: max number of clients reached: raise maxclients of the server, or close "
         "connections"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(replies); i++) {
        begins();
        assert_int_equal(take(replies[i].reply), replies[i].result);
        assert_string_equal(login.why, replies[i].why);
    }
}

static void no_reply_to_the_login_puts_the_password_into_the_log(void **state)
{
    static const struct {
        int n_ok; /* replies before the refusal */
        const char *error;
        const char *why;
    } answers[] = {
        {0, "-WRONGPASS not hidden\r\n", "h:6379: AUTH: an error that contains the password"},
        {1, "-DENIED hidden\r\n", "h:6379: HELLO: an error that contains the password"},
        {2, "-LOADING hidden\r\n", "h:6379: CLIENT SETNAME: an error that contains the password"},
        {3, "-ERR hidden no\r\n", "h:6379: SELECT: an error that contains the password"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(answers); i++) {
        begins();
        for (int n = 0; n < answers[i].n_ok; n++)
            assert_int_equal(take("+OK\r\n"), RELOCK_AGAIN);
        assert_true(take(answers[i].error) < 0);
        assert_string_equal(login.why, answers[i].why);
    }
}

/* The server's words do not name a remedy that the program has. */
static void a_missing_password_names_the_option_for_it(void **state)
{
    static const char reply[] =
        "-NOAUTH HELLO must be called with the client already authenticated, otherwise\r\n";

    (void)state;

    server.url.user = NULL;
    server.url.password = NULL;
    begins();
    assert_int_equal(take(reply), RELOCK_E_AUTH);
    assert_string_equal(login.why,
                        "h:6379: HELLO: NOAUTH: this server requires a password: set the "
                        "option password, or put it into the url");
    server.is_sentinel = true;
    begins();
    assert_int_equal(take(reply), RELOCK_E_AUTH);
    assert_string_equal(login.why, "h:6379: HELLO: NOAUTH: this server requires a password: set "
                                   "sentinel_password");
}

static void a_line_break_at_the_end_of_a_refused_password_is_named(void **state)
{
    static char from_a_file[] = "hidden\n";

    (void)state;

    server.url.password = from_a_file;
    begins();
    assert_int_equal(take("-WRONGPASS invalid username-password pair\r\n"), RELOCK_E_AUTH);
    assert_string_equal(login.why, "h:6379: AUTH: WRONGPASS invalid username-password pair: the "
                                   "user or the password ends with a line break: remove it");
}

static void a_long_refusal_is_cut(void **state)
{
    char bytes[4096];

    (void)state;

    memset(bytes, 'x', sizeof(bytes));
    bytes[0] = '-';
    memcpy(bytes + sizeof(bytes) - 3, "\r\n", 3);
    begins();
    assert_int_equal(take(bytes), RELOCK_E_AUTH);
    assert_true(strlen(login.why) < RELOCK_WHY_MAX);
    assert_memory_equal(login.why, "h:6379: AUTH: xxx", 17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LOGIN_TEST(a_refusal_ends_the_login_and_says_why),
        LOGIN_TEST(an_error_of_auth_is_told_in_words_of_ours),
        LOGIN_TEST(no_reply_to_the_login_puts_the_password_into_the_log),
        LOGIN_TEST(a_missing_password_names_the_option_for_it),
        LOGIN_TEST(a_line_break_at_the_end_of_a_refused_password_is_named),
        LOGIN_TEST(a_long_refusal_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
