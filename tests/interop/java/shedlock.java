import java.time.Duration;
import java.time.Instant;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockProvider;
import net.javacrumbs.shedlock.core.SimpleLock;
import net.javacrumbs.shedlock.provider.redis.spring.RedisLockProvider;
import org.springframework.data.redis.connection.RedisConnectionFactory;

/** Its release says nothing about a loss. By default it would delete the lock of another holder. */
final class Locks {
    private final LockProvider provider;

    Locks(RedisConnectionFactory factory) {
        provider = new RedisLockProvider.Builder(factory).safeUpdate(true).build();
    }

    Object take(String name, long leaseMs, boolean waits) {
        Duration lease = Duration.ofMillis(leaseMs);
        return provider.lock(new LockConfiguration(Instant.now(), name, lease, Duration.ZERO))
                .orElse(null);
    }

    boolean release(Object lock) {
        ((SimpleLock) lock).unlock();
        return true;
    }
}
