"""A library for Python that does what it is told: ../duo.h has the orders. The class Locks of
locks.py stands for the library: each of its files here is one of these.

usage: player.py URL
"""
import queue
import sys
import threading

import redis
from locks import Locks


class Actor(threading.Thread):
    """Does its orders one after the other, with locks of its own."""

    def __init__(self, locks, client):
        super().__init__(daemon=True)
        self.locks = locks
        self.client = client
        self.held = {}
        self.orders = queue.Queue()
        self.start()

    def run(self):
        while True:
            number, words = self.orders.get()
            try:
                answer = getattr(self, words[0])(*words[1:])
            except Exception as error:
                answer = f"failed {error!r}".replace("\n", " ")
            say(f"{number} {answer}")

    def take(self, name, lease_ms, waits):
        lock = self.locks.take(name, int(lease_ms) / 1000, waits)
        if lock:
            self.held[name] = lock
        return lock is not None

    def lock(self, name, lease_ms):
        while not self.take(name, lease_ms, True):
            pass
        return "ok"

    def trylock(self, name, lease_ms):
        return "yes" if self.take(name, lease_ms, False) else "no"

    def unlock(self, name):
        return "ok" if self.locks.release(self.held[name]) else "not-owner"

    def extend(self, name, lease_ms):
        return "ok" if self.locks.extend(self.held[name], int(lease_ms) / 1000) else "not-owner"

    def token(self, name):
        return self.locks.token(self.held[name])

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
    client = redis.Redis.from_url(sys.argv[1], client_name="player", socket_timeout=None)
    client.ping()
    locks = Locks(client, sys.argv[1])
    actors = {}
    say("ready")
    for number, line in enumerate(sys.stdin, start=1):
        name, *words = line.split()
        if name not in actors:
            actors[name] = Actor(locks, client)
        actors[name].orders.put((number, words))


main()
