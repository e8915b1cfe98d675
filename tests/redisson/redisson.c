#include "redisson.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *redisson_find(const char *version)
{
    static char folder[4096];
    const char *below = getenv("RELOCK_TEST_REDISSON");

    snprintf(folder, sizeof(folder), "%s/%s/classes", below ? below : "", version);
    if (!below || access(folder, X_OK) != 0) {
        fprintf(stderr, "no Redisson %s, which ./tests/run.sh redisson builds: skipped\n", version);
        return NULL;
    }
    snprintf(folder, sizeof(folder), "%s/%s", below, version);
    return folder;
}

/* A small JVM that starts fast, because it lives for seconds. */
struct player *redisson_start(const char *folder, const char *url, uint64_t watchdog_ms)
{
    char path[2 * 4096], archive[2 * 4096], watchdog[24];

    snprintf(path, sizeof(path), "%.4000s/player.jar:%.4000s/dependency/*", folder, folder);
    snprintf(archive, sizeof(archive), "-XX:SharedArchiveFile=%.4000s/player.jsa", folder);
    snprintf(watchdog, sizeof(watchdog), "%llu", (unsigned long long)watchdog_ms);

    /* Without a word if the archive is of no use: the output is for us. */
    const char *argv[] = {"java",
                          "-Xmx128m",
                          "-XX:+UseSerialGC",
                          "-XX:TieredStopAtLevel=1",
                          archive,
                          "-Xlog:disable",
                          "-cp",
                          path,
                          "Player",
                          url,
                          watchdog,
                          NULL};

    return player_start(argv);
}
