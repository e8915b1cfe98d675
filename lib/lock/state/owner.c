#include "lock/state/owner.h"

#include <pthread.h>
#include <stdatomic.h>

static _Thread_local struct relock_self self; /* its number is 0 until it is first needed */

/* A thread has acquired a hold for another thread: `n_holds` no longer counts all. */
static atomic_bool has_proxies;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t thread_end;
static atomic_bool has_key; /* false: the process has no key left, and exits go unnoticed */

static _Atomic(relock_owner_exit_fn *) exit_fn;

void relock_owner_on_exit(relock_owner_exit_fn *fn)
{
    atomic_store(&exit_fn, fn);
}

static void on_thread_end(void *arg)
{
    relock_owner_exit_fn *fn = atomic_load(&exit_fn);

    (void)arg;
    if (fn && (self.n_holds > 0 || atomic_load(&has_proxies)))
        fn(self.number);
    self.n_holds = 0;
    self.is_watched = false; /* destructors of other keys may acquire after this one has run */
}

static void make_key(void)
{
    atomic_store(&has_key, pthread_key_create(&thread_end, on_thread_end) == 0);
}

/* A plug-in that contains the library may be unloaded. The threads that have called it live on, and
 * must not come here when they end. */
__attribute__((destructor)) static void delete_key(void)
{
    if (atomic_exchange(&has_key, false))
        (void)pthread_key_delete(thread_end);
}

struct relock_self *relock_owner_here(void)
{
    static atomic_uint_fast64_t last;

    if (self.number == 0) {
        (void)pthread_once(&once, make_key);
        self.number = atomic_fetch_add(&last, 1) + 1;
    }
    return &self;
}

uint64_t relock_owner_self(void)
{
    return relock_owner_here()->number;
}

uint64_t relock_owner_new(void)
{
    static atomic_uint_fast64_t n;

    return RELOCK_OWNER_NAMED + atomic_fetch_add(&n, 1);
}

bool relock_owner_watch(uint64_t owner)
{
    if (owner != relock_owner_self() || self.is_watched || !atomic_load(&has_key))
        return true;
    self.is_watched = pthread_setspecific(thread_end, &self) == 0;
    return self.is_watched;
}

void relock_owner_count(uint64_t owner, int change)
{
    if (owner != relock_owner_self()) {
        if (owner < RELOCK_OWNER_NAMED && change > 0)
            atomic_store(&has_proxies, true);
        return;
    }
    self.n_holds += change;
    (void)relock_owner_watch(owner);
}
