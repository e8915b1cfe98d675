/* A build without OpenSSL. */
#include "redis/server/private.h"
#include "redis/server/tls_context.h"

int relock_tls_context_new(const struct relock_options *options, const char *host,
                           const struct relock_log *log, struct relock_tls_context **context)
{
    (void)options;
    (void)host;
    (void)context;
    relock_log_write(log, RELOCK_LOG_ERROR,
                     "no client was made: this library was built without OpenSSL, so it cannot "
                     "connect to rediss://");
    return RELOCK_E_UNSUPPORTED;
}

struct relock_tls_context *relock_tls_context_new_for(const struct relock_tls_context *as,
                                                      const char *host)
{
    (void)as;
    (void)host;
    return NULL;
}

struct relock_tls_context *relock_tls_context_free(struct relock_tls_context *context)
{
    (void)context;
    return NULL;
}
