/* A build without OpenSSL. No context exists, so nothing but free is called. */
#include "redis/connect/private.h"

/* The types are those of tls.c. */
/* NOLINTBEGIN(readability-non-const-parameter) */

struct relock_tls *relock_tls_new(const struct relock_server *server)
{
    (void)server;
    return NULL;
}

struct relock_tls *relock_tls_free(struct relock_tls *tls)
{
    (void)tls;
    return NULL;
}

int relock_tls_shake(struct relock_tls *tls)
{
    (void)tls;
    return RELOCK_E_UNSUPPORTED;
}

bool relock_tls_wants_to_write(const struct relock_tls *tls)
{
    (void)tls;
    return false;
}

void relock_tls_describe(const struct relock_tls *tls, char out[RELOCK_WHY_MAX])
{
    (void)tls;
    out[0] = '\0';
}

void relock_tls_feed(struct relock_tls *tls, const char *bytes, size_t len)
{
    (void)tls;
    (void)bytes;
    (void)len;
}

int relock_tls_read(struct relock_tls *tls, char *data, size_t size, size_t *len)
{
    (void)tls;
    (void)data;
    (void)size;
    (void)len;
    return RELOCK_E_UNSUPPORTED;
}

int relock_tls_seal(struct relock_tls *tls, const char **bytes, size_t *len)
{
    (void)tls;
    (void)bytes;
    (void)len;
    return RELOCK_E_UNSUPPORTED;
}

size_t relock_tls_sent(struct relock_tls *tls, size_t n)
{
    (void)tls;
    return n;
}

size_t relock_tls_answer(const struct relock_tls *tls, const char **bytes)
{
    (void)tls;
    (void)bytes;
    return 0;
}

void relock_tls_end(struct relock_tls *tls)
{
    (void)tls;
}

int relock_tls_socket_failed(struct relock_tls *tls, int err)
{
    (void)tls;
    (void)err;
    return RELOCK_E_UNSUPPORTED;
}

const char *relock_tls_why(const struct relock_tls *tls)
{
    (void)tls;
    return "";
}

/* NOLINTEND(readability-non-const-parameter) */
