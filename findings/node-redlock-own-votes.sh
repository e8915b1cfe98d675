#!/usr/bin/env bash
# redlock (Node) counts its own key against itself when it tries again, so it fails although the lock is free.
#
# An attempt that gets no quorum leaves the keys that it has set, and the next attempt, with the same token, finds
# these servers locked: the script asks only whether the key exists. They vote against the client until its own
# lease ends. With one server of three down, a stranger that has another one for half a second is enough: the
# client has set its key on the first server, so it never gets two votes any more, whoever else has gone. Several
# clients that split the servers among themselves block each other in the same way.
#
# With retryCount 0 and a loop in the program, each attempt ends by a release, and the next one succeeds.
#
# Documentation (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/): a client that failed
# to acquire the lock tries to unlock all the instances, and retries after a random delay. The README of redlock,
# which implements that, says of retryCount only how often it tries. Version 4 releases before it tries again: it
# runs here, too.
#
# Seen with redlock 5.0.0-beta.2 and its fork @sesamecare-oss/redlock 1.4.0, over ioredis 5.11.1 and redis-server
# 7.0.15. The lease is 30 s. redlock tries once and 15 times more, every 200 ms.
#
# Output seen:
#     redlock 5.0.0-beta.2 tries again: not acquired after 3.2 s
#     @sesamecare-oss/redlock 1.4.0 tries again: not acquired after 4.6 s
#     redlock 4.2.0 tries again: acquired after 1.7 s
#     redlock 5.0.0-beta.2, and the program tries again: acquired after 0.8 s
#     as described
#
# Needs redis-server, node, npm and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${servers[@]}" 2>/dev/null || true; rm -rf "$folder"' EXIT
servers=()
cd "$folder"
for name in first second; do
    redis-server --port 0 --unixsocket "$folder/$name" --save '' >"$folder/$name.log" &
    servers+=($!)
done
echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund redlock@5.0.0-beta.2 @sesamecare-oss/redlock@1.4.0 \
    redlock4@npm:redlock@4.2.0 ioredis@5.11.1

cat >try.js <<'NODE'
const { once } = require("events");
const { setTimeout: sleep } = require("timers/promises");
const { Redis } = require("ioredis");
const LEASE_MS = 30000;
const RETRIES = { retryCount: 15, retryDelay: 200, retryJitter: 0 };

function open(path) {
    const redis = new Redis({ path, maxRetriesPerRequest: 0, retryStrategy: () => 100 });

    redis.on("error", () => {});
    return redis;
}

async function inLoop(redlock, name) {
    for (let i = 0; i < RETRIES.retryCount; i++) {
        try {
            return await redlock.acquire([name], LEASE_MS);
        } catch {
            await sleep(RETRIES.retryDelay);
        }
    }
}

async function isAcquired(servers, what, name, acquire) {
    await servers[1].set(name, "stranger", "PX", 500);
    const began = Date.now();
    const lock = await acquire(name).catch(() => undefined);
    const seconds = ((Date.now() - began) / 1000).toFixed(1);

    console.log(`${what}: ${lock ? "acquired" : "not acquired"} after ${seconds} s`);
    return Boolean(lock);
}

async function main() {
    const servers = ["first", "second", "down"].map(open);
    const make = (Redlock, settings) => new Redlock(servers, settings).on("error", () => {});
    const newest = require("redlock").default;
    const fork = require("@sesamecare-oss/redlock").Redlock;

    await Promise.all(servers.slice(0, 2).map((redis) => once(redis, "ready")));
    const seen = [
        await isAcquired(servers, "redlock 5.0.0-beta.2 tries again", "a", (name) =>
            make(newest, RETRIES).acquire([name], LEASE_MS),
        ),
        await isAcquired(servers, "@sesamecare-oss/redlock 1.4.0 tries again", "b", (name) =>
            make(fork, RETRIES).acquire([name], LEASE_MS),
        ),
        await isAcquired(servers, "redlock 4.2.0 tries again", "c", (name) =>
            make(require("redlock4"), RETRIES).lock(name, LEASE_MS),
        ),
        await isAcquired(servers, "redlock 5.0.0-beta.2, and the program tries again", "d", (name) =>
            inLoop(make(newest, { retryCount: 0 }), name),
        ),
    ];
    if (String(seen) !== "false,false,true,true") process.exit(1);
    console.log("as described");
    process.exit();
}

main();
NODE
node try.js
