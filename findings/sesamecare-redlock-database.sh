#!/usr/bin/env bash
# @sesamecare-oss/redlock makes its locks in database 0, whatever database its connection uses.
#
# Its scripts begin with `redis.pcall("SELECT", tonumber(ARGV[1]))`, and that argument is the setting `db` of
# Redlock, which is 0 unless it is given. The database of the ioredis connection is not asked. So a program
# that keeps its data in database 3 finds no lock there, two programs that use databases 1 and 2 to be apart
# share locks, and `FLUSHDB` in 3 leaves the locks.
#
# Seen with @sesamecare-oss/redlock 1.4.0 over ioredis 5.11.1, and redis-server 7.0.15. redlock 5.0.0-beta.2,
# of which it is a fork, has no such setting and uses the database of the connection: it runs here, too.
#
# Output seen:
#     @sesamecare-oss/redlock over a connection of database 3: the lock is in database 0
#     redlock over a connection of database 3: the lock is in database 3
#     as described
#
# Needs redis-server, node, npm and network access to its packages. Ends with 1 if the behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; rm -rf "$folder"' EXIT
redis-server --port 0 --unixsocket "$folder/socket" --save '' >"$folder/log" &
server=$!
cd "$folder"
echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund @sesamecare-oss/redlock@1.4.0 ioredis@5.11.1 redlock@5.0.0-beta.2

cat >find.js <<'NODE'
const { Redis } = require("ioredis");
const DATABASE = 3;

async function databaseOfLock(Redlock) {
    const redis = new Redis({ path: "socket", db: DATABASE });
    const lock = await new Redlock([redis]).acquire(["orders"], 10000);
    const found = [];

    for (let db = 0; db <= DATABASE; db++) {
        const looking = new Redis({ path: "socket", db });
        if (await looking.exists("orders")) found.push(db);
        looking.disconnect();
    }
    await lock.release();
    redis.disconnect();
    return found.join(" and ");
}

async function main() {
    const fork = await databaseOfLock(require("@sesamecare-oss/redlock").Redlock);
    const parent = await databaseOfLock(require("redlock").default);
    const over = `over a connection of database ${DATABASE}: the lock is in database`;

    console.log(`@sesamecare-oss/redlock ${over} ${fork}`);
    console.log(`redlock ${over} ${parent}`);
    if (fork !== "0" || parent !== String(DATABASE)) process.exit(1);
    console.log("as described");
}

main();
NODE
node find.js
