import pottery


class Locks:
    def __init__(self, client, _):
        self.client = client

    def take(self, name, lease_s, waits):
        lock = pottery.Redlock(key=name, masters={self.client}, auto_release_time=lease_s)
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except pottery.ReleaseUnlockedLock:
            return False
        return True
