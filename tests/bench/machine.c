#include "machine.h"

#include "bare.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#ifdef __OPTIMIZE__
#define BUILD "optimised build"
#else
#define BUILD "build WITHOUT optimisation"
#endif

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

static void look_for_cpu(char *cpu, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    while (file && fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');

        if (!colon || strncmp(line, "model name", strlen("model name")) != 0)
            continue;
        snprintf(cpu, size, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    if (file)
        fclose(file);
}

void machine_look(struct machine *machine, const char *url)
{
    struct redisContext *redis = bare_connect(url);
    struct utsname system;
    time_t now = time(NULL);
    struct tm date;

    *machine = (struct machine){.cpu = "unknown processor", .compiler = COMPILER, .build = BUILD};
    strftime(machine->date, sizeof(machine->date), "%Y-%m-%d %H:%M", localtime_r(&now, &date));
    look_for_cpu(machine->cpu, sizeof(machine->cpu));
    machine->n_cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&machine->load, 1) != 1)
        machine->load = 0;
    if (uname(&system) == 0)
        snprintf(machine->kernel, sizeof(machine->kernel), "%.15s %.31s %.31s", system.sysname,
                 system.release, system.machine);
    bare_server_version(redis, machine->server, sizeof(machine->server));
    snprintf(machine->hiredis, sizeof(machine->hiredis), "%d.%d.%d", HIREDIS_MAJOR, HIREDIS_MINOR,
             HIREDIS_PATCH);
    bare_close(redis);
}
