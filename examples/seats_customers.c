/*
 * The customers of the demonstration: N_SEATS of them reserve a seat each, as many wait until those
 * have left, and some give up waiting.
 */
#include "seats.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_IMPATIENT 10

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
    return fd;
}

/* A new customer. Returns its connection. */
static int ask(uint16_t port, unsigned seat)
{
    int fd = connect_to(port);

    must(dprintf(fd, "SEAT %u\n", seat) > 0, "ask for a seat");
    return fd;
}

static bool is_mine(int fd)
{
    char line[16] = "";

    return read(fd, line, sizeof(line) - 1) > 0 && strcmp(line, "YOURS\n") == 0;
}

static unsigned count_threads(pid_t pid)
{
    char path[64];
    unsigned n = 0;
    DIR *threads;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    must(threads != NULL, path);
    for (struct dirent *entry = readdir(threads); entry; entry = readdir(threads))
        n += entry->d_name[0] != '.';
    closedir(threads);
    return n;
}

static bool have_seats(const int *fds)
{
    unsigned n = 0;

    for (unsigned seat = 0; seat < N_SEATS; seat++)
        n += is_mine(fds[seat]);
    if (n < N_SEATS)
        fprintf(stderr, "seats: only %u of %d customers have a seat\n", n, N_SEATS);
    return n == N_SEATS;
}

static void close_all(const int *fds)
{
    for (unsigned seat = 0; seat < N_SEATS; seat++)
        close(fds[seat]);
}

int customers_run(uint16_t port)
{
    static int first[N_SEATS], second[N_SEATS];

    for (unsigned seat = 0; seat < N_SEATS; seat++)
        first[seat] = ask(port, seat);
    if (!have_seats(first))
        return EXIT_FAILURE;
    for (unsigned seat = 0; seat < N_IMPATIENT; seat++)
        close(ask(port, seat));
    for (unsigned seat = 0; seat < N_SEATS; seat++)
        second[seat] = ask(port, seat);
    printf("%d seats are reserved, and %d customers wait; the server has its own thread and %u of "
           "relock\n",
           N_SEATS, N_SEATS, count_threads(getppid()) - 1);
    fflush(stdout);

    close_all(first);
    if (!have_seats(second))
        return EXIT_FAILURE;
    close_all(second);
    printf("each of those who waited had the seat after the first customer left\n");
    fflush(stdout);
    return EXIT_SUCCESS;
}
