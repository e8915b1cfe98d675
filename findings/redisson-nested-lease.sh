#!/usr/bin/env bash
# Redisson: a nested lock() and unlock() of the same thread leave the outer lock with the lease of the inner one.
#
# RLock is reentrant. But each level sets the time to live of the key: an inner lock() to its own lease, and
# its unlock(), which leaves the outer level, to that lease again, whatever the outer one was to have. If one of
# the two has a lease, nothing renews the lock after that, even if the outer one, without a lease, was renewed
# every 10 s. (It is renewed if neither has a lease.) Hence
# - within lock(10, MINUTES), a method that gets the lock by its name and calls lock() and unlock() leaves 30 s
#   of the 10 minutes, and they are not renewed;
# - within lock(), a method that calls lock(12, SECONDS) and unlock() leaves 12 s. Then another thread has the
#   lock, and the outer level learns of it from its own unlock(), which throws.
#
# Documentation (https://redisson.pro/docs/data-and-services/locks-and-synchronizers/, "Lock"): the lock is
# reentrant, its watchdog prolongs it while the Redisson instance that holds it is alive, and a lock with a
# leaseTime is released after that time. Of the leases of levels it says nothing. In 2019 somebody asked why
# unlock() sets the time anew, and got no answer: https://github.com/redisson/redisson/issues/2202
#
# Seen with Redisson 4.7.0 and redis-server 7.0.15, all settings at their defaults.
#
# Output seen:
#     lock(10, MINUTES), and in it lock() and unlock(): 600 s before, 30 s after it, 19 s after 11 s more
#     lock(), and in it lock(12, SECONDS) and unlock(): 30 s before, 12 s after it
#     13 s later, another thread acquired it: true, and unlock() of the outer level threw: true
#     as described
#
# Needs redis-server, redis-cli, a JDK (17), Maven and network access to its packages. Ends with 1 if the
# behaviour has changed.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
port=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
redis-server --port "$port" --bind 127.0.0.1 --save '' >"$folder/log" &
server=$!
for _ in {1..100}; do
    redis-cli -p "$port" ping >"$folder/ping" 2>&1 && break
    sleep 0.1
done
cat >"$folder/pom.xml" <<'XML'
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>findings</groupId>
  <artifactId>nested</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.redisson</groupId>
      <artifactId>redisson</artifactId>
      <version>4.7.0</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-nop</artifactId>
      <version>2.0.17</version>
    </dependency>
  </dependencies>
</project>
XML
mvn --quiet --batch-mode -f "$folder/pom.xml" -Dmaven.repo.local="$folder/repository" \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath \
    -Dmdep.outputFile="$folder/classpath" >"$folder/maven" 2>&1 || { cat "$folder/maven" && exit 1; }

cat >"$folder/Nested.java" <<'JAVA'
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Nested {
    static long seconds(RLock lock) {
        return Math.round(lock.remainTimeToLive() / 1000.0);
    }

    static boolean aLeaseBecomesTheWatchdogs(RedissonClient client) throws Exception {
        RLock outer = client.getLock("orders"), inner = client.getLock("orders");

        outer.lock(10, TimeUnit.MINUTES);
        long before = seconds(outer);
        inner.lock();
        inner.unlock();
        long after = seconds(outer);
        Thread.sleep(11000);
        long later = seconds(outer);
        outer.unlock();
        System.out.printf("lock(10, MINUTES), and in it lock() and unlock(): %d s before, %d s after it, "
                + "%d s after 11 s more%n", before, after, later);
        return before > 590 && after <= 30 && later <= 20;
    }

    static boolean theWatchdogIsGone(RedissonClient client) throws Exception {
        RLock outer = client.getLock("orders"), inner = client.getLock("orders");
        boolean threw = false;

        outer.lock();
        long before = seconds(outer);
        inner.lock(12, TimeUnit.SECONDS);
        inner.unlock();
        long after = seconds(outer);
        Thread.sleep(13000);
        boolean taken = CompletableFuture.supplyAsync(() -> client.getLock("orders").tryLock()).get();
        try {
            outer.unlock();
        } catch (IllegalMonitorStateException e) {
            threw = true;
        }
        System.out.printf("lock(), and in it lock(12, SECONDS) and unlock(): %d s before, %d s after it%n"
                + "13 s later, another thread acquired it: %b, and unlock() of the outer level threw: %b%n",
                before, after, taken, threw);
        return before > 25 && after <= 12 && taken && threw;
    }

    public static void main(String[] arguments) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + arguments[0]);
        RedissonClient client = Redisson.create(config);
        boolean asDescribed = aLeaseBecomesTheWatchdogs(client) & theWatchdogIsGone(client);

        client.shutdown();
        if (!asDescribed)
            System.exit(1);
        System.out.println("as described");
    }
}
JAVA
java -cp "$(cat "$folder/classpath")" "$folder/Nested.java" "$port"
