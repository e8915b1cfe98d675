#include "stopping.h"

#include "support/wait.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

_Thread_local int stops_at;

static sem_t has_stopped, may_go_on;

__attribute__((constructor)) static void init(void)
{
    sem_init(&has_stopped, 0, 0);
    sem_init(&may_go_on, 0, 0);
}

int pthread_setcancelstate(int state, int *before)
{
    int (*next)(int, int *) = NULL;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_setcancelstate");
    if (before && stops_at > 0 && --stops_at == 0) {
        sem_post(&has_stopped);
        while (sem_wait(&may_go_on) != 0)
            continue;
    }
    return next(state, before);
}

static bool has_stopped_or_ended(void *actor)
{
    return sem_trywait(&has_stopped) == 0 || !actor_is_busy(actor);
}

bool stopping_wait(struct actor *actor)
{
    return wait_until(has_stopped_or_ended, actor, SOON_MS) && actor_is_busy(actor);
}

void stopping_go_on(void)
{
    sem_post(&may_go_on);
}
