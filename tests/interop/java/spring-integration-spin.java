import java.time.Duration;
import java.util.ConcurrentModificationException;
import org.springframework.data.redis.connection.RedisConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.support.locks.DistributedLock;

/** A waiter polls. */
final class Locks {
    private final RedisLockRegistry registry;

    Locks(RedisConnectionFactory factory) {
        registry = new RedisLockRegistry(factory, "shop");
        registry.setRedisLockType(RedisLockRegistry.RedisLockType.SPIN_LOCK);
    }

    Object take(String name, long leaseMs, boolean waits) throws Exception {
        DistributedLock lock = registry.obtain(name);
        Duration lease = Duration.ofMillis(leaseMs);
        return lock.tryLock(waits ? lease : Duration.ZERO, lease) ? lock : null;
    }

    boolean release(Object lock) {
        try {
            ((DistributedLock) lock).unlock();
        } catch (ConcurrentModificationException lost) {
            return false;
        }
        return true;
    }
}
