/*
 * lockable - relock in C++, with std::scoped_lock, std::unique_lock and deadlines
 *
 * The class `lockable` has the members that the standard library expects of a timed mutex, so
 * std::scoped_lock and std::unique_lock accept it. Write `struct relock_lock`: in C++ the name
 * alone is the function.
 *
 *     c++ -std=c++17 lockable.cpp $(pkg-config --cflags --libs relock) -pthread -o lockable
 *     ./lockable [URL]                                      default: redis://127.0.0.1:6379
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <relock.h>
#include <stdexcept>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace
{

class error : public std::runtime_error
{
  public:
    explicit error(const std::string &what, int result)
        : std::runtime_error(what + ": " + relock_strerror(result)), result(result)
    {
    }

    const int result;
};

struct deleter {
    void operator()(struct relock_client *client) const
    {
        relock_client_free(client);
    }
    void operator()(struct relock_lock *lock) const
    {
        relock_lock_free(lock);
    }
};

using client = std::unique_ptr<struct relock_client, deleter>;

client connect(const char *url)
{
    struct relock_options options = {};
    struct relock_client *made;

    options.url = url;
    if (int r = relock_client_new(&options, &made); r != RELOCK_OK)
        throw error("connect", r);
    return client(made);
}

/* A reentrant TimedLockable. Throws if it cannot acquire the lock for a reason other than time. */
class lockable
{
  public:
    lockable(const client &on, const char *name)
    {
        struct relock_lock *made;

        if (int r = relock_lock_new(on.get(), name, &made); r != RELOCK_OK)
            throw error(name, r);
        handle.reset(made);
    }

    void lock()
    {
        is_acquired(relock_lock(handle.get()));
    }
    bool try_lock()
    {
        return is_acquired(relock_trylock(handle.get()));
    }

    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &wait)
    {
        auto ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();

        return is_acquired(relock_timedlock(handle.get(), ms));
    }

    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return try_lock_for(deadline - Clock::now());
    }

    /* Guards call this in their destructors, so it must not throw. Call is_certain_for() before any
       step that needs the lock. */
    void unlock() noexcept
    {
        relock_unlock(handle.get());
    }

    bool is_certain_for(std::chrono::milliseconds step) const
    {
        return relock_valid_ms(handle.get()) >= static_cast<uint64_t>(step.count());
    }

  private:
    bool is_acquired(int r) const
    {
        if (r == RELOCK_BUSY || r == RELOCK_TIMEOUT)
            return false;
        if (r != RELOCK_OK)
            throw error(relock_lock_name(handle.get()), r);
        return true;
    }

    std::unique_ptr<struct relock_lock, deleter> handle;
};

struct account {
    lockable lock;
    int cents;
};

/* scoped_lock acquires both without a deadlock, in whatever order they are listed. */
void transfer(account &from, account &to, int cents)
{
    std::scoped_lock both(from.lock, to.lock);

    if (!from.lock.is_certain_for(100ms) || !to.lock.is_certain_for(100ms))
        throw error("transfer", RELOCK_LOST);
    from.cents -= cents;
    to.cents += cents;
}

/* Returns whether a wait ends at its deadline while another thread holds the lock. */
bool times_out(account &account)
{
    std::scoped_lock held(account.lock);
    bool timed_out = false;

    std::thread([&] {
        std::unique_lock<lockable> guard(account.lock, std::chrono::steady_clock::now() + 200ms);
        timed_out = !guard.owns_lock();
    }).join();
    return timed_out;
}

int demonstrate(const char *url)
{
    client shared = connect(url);
    account ours{{shared, "account:1"}, 1000}, theirs{{shared, "account:2"}, 1000};
    std::thread there([&] {
        for (int i = 0; i < 100; i++)
            transfer(ours, theirs, 3);
    });
    std::thread back([&] {
        for (int i = 0; i < 100; i++)
            transfer(theirs, ours, 2);
    });

    there.join();
    back.join();
    std::printf("account 1: %d cents, account 2: %d cents\n", ours.cents, theirs.cents);
    return ours.cents == 900 && theirs.cents == 1100 && times_out(ours) ? EXIT_SUCCESS
                                                                        : EXIT_FAILURE;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return demonstrate(argc > 1 ? argv[1] : nullptr);
    } catch (const error &failure) {
        std::fprintf(stderr, "lockable: %s\n", failure.what());
        return EXIT_FAILURE;
    }
}
