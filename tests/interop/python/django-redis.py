import django
from django.conf import settings
from redis.exceptions import LockNotOwnedError

RETRY_S = 0.01


class Locks:
    def __init__(self, _, url):
        settings.configure(
            CACHES={
                "default": {
                    "BACKEND": "django_redis.cache.RedisCache",
                    "LOCATION": url,
                    "OPTIONS": {"CONNECTION_POOL_KWARGS": {"client_name": "player"}},
                }
            }
        )
        django.setup()
        from django.core.cache import cache

        self.cache = cache

    def take(self, name, lease_s, waits):
        lock = self.cache.lock(name, timeout=lease_s, sleep=RETRY_S, thread_local=False)
        return lock if lock.acquire(blocking=waits) else None

    def release(self, lock):
        try:
            lock.release()
        except LockNotOwnedError:
            return False
        return True
