#include "urls.h"
#include "redis/server/private.h"

void assert_text(const char *got, const char *wanted)
{
    if (wanted)
        assert_string_equal(got, wanted);
    else
        assert_null(got);
}

void assert_refused(const char *text)
{
    struct relock_url url;
    const char *why = NULL;

    if (relock_url_parse(&url, text, &why) != RELOCK_E_INVALID)
        fail_msg("%s is not refused as it should be", text);
    assert_non_null(why);
    assert_string_not_equal(why, "");
    assert_null(url.host);
    assert_null(url.path);
    assert_null(url.user);
    assert_null(url.password);
    assert_null(url.master);
    assert_int_equal(url.n_hosts, 0);
}
