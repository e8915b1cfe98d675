#include "redis/lane/spare.h"

#include "redis/connect/conn_id.h"
#include "redis/server/loop.h"

#include <sys/socket.h>
#include <unistd.h>

void relock_spare_init(struct relock_spare *spare)
{
    *spare = (struct relock_spare){0};
    relock_mutex_init(&spare->mutex);
    atomic_init(&spare->is_wanted, false);
    atomic_init(&spare->loop, NULL);
}

void relock_spare_deinit(struct relock_spare *spare)
{
    relock_spare_drop(spare);
    relock_mutex_deinit(&spare->mutex);
}

void relock_spare_abandon(const struct relock_spare *spare)
{
    if (spare->guarded.is_there)
        close(spare->guarded.loan.socket.fd);
}

bool relock_spare_take(struct relock_spare *spare, struct relock_loan *loan)
{
    bool is_there;

    relock_mutex_lock(&spare->mutex);
    is_there = spare->guarded.is_there;
    *loan = spare->guarded.loan;
    spare->guarded.is_there = false;
    relock_mutex_unlock(&spare->mutex);
    return is_there;
}

void relock_spare_want(struct relock_spare *spare)
{
    struct relock_loop *loop = atomic_load(&spare->loop);

    atomic_store(&spare->is_wanted, true);
    if (loop)
        relock_loop_wake(loop);
}

void relock_spare_drop(struct relock_spare *spare)
{
    struct relock_loan loan;

    if (!relock_spare_take(spare, &loan))
        return;
    (void)relock_tls_free(loan.socket.tls);
    (void)shutdown(loan.socket.fd, SHUT_RDWR); /* a forked child may have a copy */
    close(loan.socket.fd);
    (void)relock_conn_id_unref(loan.conn_id);
}

void relock_spare_put(struct relock_spare *spare, const struct relock_loan *loan)
{
    relock_spare_drop(spare);
    relock_mutex_lock(&spare->mutex);
    spare->guarded.loan = *loan;
    spare->guarded.is_there = true;
    relock_mutex_unlock(&spare->mutex);
}
