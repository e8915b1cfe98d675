/* A build without OpenSSL. */
#include "rows.h"

void row_tls(const struct plan *plan, struct report *report)
{
    struct result *result = report_add(report, "tls", "uncontended lock+unlock over TLS, 1 thread");

    (void)plan;
    result_note(result, "the library was built without OpenSSL");
}

struct server *tls_server(void)
{
    return NULL;
}
