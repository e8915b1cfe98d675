#!/usr/bin/env bash
# redis-lock (Node): a release during a lost connection deletes the lock of whoever has it when the client is back.
#
# The release compares the end of the lease with the clock of the process, and sends a DEL without comparing the
# value. node-redis keeps a command that it cannot send, by default, and sends it when it has reconnected. So a
# holder that releases in time, while its connection is gone, deletes whatever has the key some seconds later: the
# lock of the next holder, which got it when the lease ended. Then a third one acquires it beside the second. A
# second call of the same release, within the lease, does the same without any fault of the network.
#
# Documentation (https://www.npmjs.com/package/redis-lock/v/1.0.0): only if the timeout is breached can two functions
# acquire the same lock; done() releases the lock, or does nothing if the timeout has already released it. In what
# follows, nobody breaches a timeout.
#
# Seen with redis-lock 1.0.0, node-redis 4.7.1, the newest that it accepts, and redis-server 7.0.15. The first holder
# has 2 s, and releases after 1 s; the second has 60 s.
#
# Output seen:
#     connected: the second holder got it after 1.0 s, a third one beside it: false
#     connection lost for 3 s: the second holder got it after 2.0 s, a third one beside it: true
#     released twice: the second holder got it after 1.0 s, a third one beside it: true
#     as described
#
# Needs redis-server, node, npm and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund redis-lock@1.0.0 redis@4.7.1
redis-server --port 0 --unixsocket "$folder/redis" --save '' >"$folder/log" &
server=$!
for _ in {1..100}; do
    [[ -S $folder/redis ]] && break
    sleep 0.1
done

cat >release.js <<'NODE'
const net = require("net");
const { setTimeout: sleep } = require("timers/promises");
const { createClient } = require("redis");
const redisLock = require("redis-lock");

/* The network between the first holder and Redis. */
const network = {
    sockets: [],
    up() {
        this.server = net.createServer((near) => {
            const far = net.connect("redis");

            near.pipe(far).pipe(near);
            this.sockets.push(near, far);
            for (const socket of [near, far]) socket.on("error", () => {});
        });
        return new Promise((resolve) => this.server.listen("network", resolve));
    },
    down() {
        for (const socket of this.sockets.splice(0)) socket.destroy();
        return new Promise((resolve) => this.server.close(resolve));
    },
};

async function connect(path) {
    const client = createClient({ socket: { path } });

    client.on("error", () => {});
    return client.connect();
}

/* Of two holders of one name, of whom the first does `release` after 1 s of 2 s. */
async function isDoubled(what, name, first, second, third, release) {
    const done = await redisLock(first)(name, 2000);
    const began = Date.now();
    const next = redisLock(second)(name, 60000);

    await sleep(1000);
    const released = release(done, next);
    await next;
    const seconds = ((Date.now() - began) / 1000).toFixed(1);
    await released;
    const isThird = await Promise.race([
        redisLock(third)(name, 60000).then(() => true),
        sleep(500).then(() => false),
    ]);

    console.log(`${what}: the second holder got it after ${seconds} s, a third one beside it: ${isThird}`);
    return isThird;
}

async function main() {
    await network.up();
    const clients = [await connect("network"), await connect("redis"), await connect("redis")];
    const seen = [
        await isDoubled("connected", "a", ...clients, (done) => done()),
        await isDoubled("connection lost for 3 s", "b", ...clients, async (done) => {
            const isGone = new Promise((resolve) => clients[0].once("reconnecting", resolve));
            await network.down();
            await isGone;
            const released = done();
            await sleep(3000);
            await network.up();
            await released;
        }),
        await isDoubled("released twice", "c", ...clients, async (done, next) => {
            await done();
            await next;
            await done();
        }),
    ];

    if (String(seen) !== "false,true,true") process.exit(1);
    console.log("as described");
    process.exit();
}

main();
NODE
node release.js
