from redis.exceptions import LockNotOwnedError

RETRY_S = 0.01


def is_owned(work):
    try:
        work()
    except LockNotOwnedError:
        return False
    return True


class Locks:
    def __init__(self, client, _):
        self.make = client.lock

    def take(self, name, lease_s, waits):
        lock = self.make(name, timeout=lease_s, sleep=RETRY_S, thread_local=False)
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        return is_owned(lock.release)

    def extend(self, lock, lease_s):
        return is_owned(lambda: lock.extend(lease_s, replace_ttl=True))

    def token(self, lock):
        return lock.local.token.decode()
