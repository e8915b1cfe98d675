#include "redis/server/private.h"
#include "redis/server/tls_context.h"

#include "base/thread.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <relock.h>

/* Threads between enter and exit are its readers. */
static pthread_rwlock_t inside;
static bool has_ended; /* guarded by `inside` */

static bool is_watched; /* forks wait; written before main() */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_begun; /* written once */

/* A steady stream of readers must not keep a fork waiting. */
static void make_lock(void)
{
    pthread_rwlockattr_t attr;

    (void)pthread_rwlockattr_init(&attr);
#ifdef __GLIBC__
    (void)pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    (void)pthread_rwlock_init(&inside, &attr);
    (void)pthread_rwlockattr_destroy(&attr);
}

static void before_fork(void)
{
    (void)pthread_rwlock_wrlock(&inside);
}

static void in_parent(void)
{
    (void)pthread_rwlock_unlock(&inside);
}

static void in_child(void)
{
    (void)pthread_rwlock_unlock(&inside);
    make_lock(); /* this copy counts readers that wait in the parent */
}

/* Handlers that are registered later run before ours. They may wait for threads, and those for us:
 * so ours must be the last. */
__attribute__((constructor)) static void register_handlers(void)
{
    make_lock();
    is_watched = pthread_atfork(before_fork, in_parent, in_child) == 0;
}

static void on_end(void)
{
    (void)pthread_rwlock_wrlock(&inside);
    has_ended = true;
    (void)pthread_rwlock_unlock(&inside);
}

/* If nobody has started OpenSSL yet, it never ends. */
static void begin(void)
{
    if (!is_watched)
        return;
    (void)pthread_rwlock_rdlock(&inside);
    has_begun = OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1 && OPENSSL_atexit(on_end) == 1;
    (void)pthread_rwlock_unlock(&inside);
}

int relock_tls_guard_init(void)
{
    (void)pthread_once(&once, begin);
    return has_begun ? RELOCK_OK : RELOCK_E_NOMEM;
}

bool relock_tls_guard_enter(void)
{
    (void)pthread_rwlock_rdlock(&inside);
    if (!has_ended) {
        relock_tsan_look_away();
        ERR_clear_error();
        errno = 0;
        return true;
    }
    (void)pthread_rwlock_unlock(&inside);
    return false;
}

/* Some functions of OpenSSL do not say why they fail, so errno counts, too. */
bool relock_tls_guard_lacked_memory(void)
{
    bool has_lacked = errno == ENOMEM;
    unsigned long error;

    while ((error = ERR_get_error()) != 0)
        has_lacked |= ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    return has_lacked;
}

void relock_tls_guard_exit(void)
{
    ERR_clear_error();
    relock_tsan_look_again();
    (void)pthread_rwlock_unlock(&inside);
}
