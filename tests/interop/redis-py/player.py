"""redis-py's Lock that does what it is told: ../duo.h has the orders.

usage: player.py URL
"""
import queue
import sys
import threading

import redis
from redis.exceptions import LockError

RETRY_S = 0.01


class Actor(threading.Thread):
    """Does its orders one after the other, with locks of its own."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client = client
        self.locks = {}
        self.orders = queue.Queue()
        self.start()

    def run(self):
        while True:
            number, words = self.orders.get()
            try:
                answer = getattr(self, words[0])(*words[1:])
            except LockError as error:
                answer = "not-owner" if "own" in str(error) else f"failed {error!r}"
            except Exception as error:
                answer = f"failed {error!r}"
            say(f"{number} {answer}")

    def take(self, name, lease_ms, **how):
        self.locks[name] = self.client.lock(
            name, timeout=int(lease_ms) / 1000, sleep=RETRY_S, thread_local=False
        )
        return self.locks[name].acquire(**how)

    def lock(self, name, lease_ms):
        self.take(name, lease_ms)
        return "ok"

    def trylock(self, name, lease_ms):
        return "yes" if self.take(name, lease_ms, blocking=False) else "no"

    def unlock(self, name):
        self.locks[name].release()
        return "ok"

    def extend(self, name, lease_ms):
        self.locks[name].extend(int(lease_ms) / 1000, replace_ttl=True)
        return "ok"

    def token(self, name):
        return self.locks[name].local.token.decode()

    def count(self, name, key, times):
        for _ in range(int(times)):
            self.lock(name, 60000)
            self.client.set(key, int(self.client.get(key)) + 1)
            self.unlock(name)
        return "ok"


def say(line):
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main():
    client = redis.Redis.from_url(sys.argv[1], client_name="player")
    client.ping()
    actors = {}
    say("ready")
    for number, line in enumerate(sys.stdin, start=1):
        name, *words = line.split()
        if name not in actors:
            actors[name] = Actor(client)
        actors[name].orders.put((number, words))


main()
