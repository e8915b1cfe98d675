import math

import redis_lock


class Locks:
    """A waiter sleeps for as long as the lease that it asks for, unless the list has a signal."""

    def __init__(self, client, _):
        self.client = client

    def take(self, name, lease_s, waits):
        lock = redis_lock.Lock(self.client, name, expire=math.ceil(lease_s))
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except redis_lock.NotAcquired:
            return False
        return True
