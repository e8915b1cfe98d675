/*
 * metrics - serves the counters of a client to Prometheus, over HTTP
 *
 * Some threads share a lock, and the main thread answers each request on PORT with the counters. A
 * program with an HTTP server of its own needs only metrics_text().
 *
 *     cc metrics.c $(pkg-config --cflags --libs relock) -pthread -o metrics
 *     ./metrics [URL [PORT]]                       default: redis://127.0.0.1:6379, 9121
 *     curl http://127.0.0.1:9121/metrics
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <relock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define N_THREADS 4
#define WORK_US 2000

static struct relock_client *client;

/* The counters as text, which the caller frees; NULL when out of memory or after fork(). */
static char *metrics_text(size_t *len)
{
    size_t size = 64 * 1024;
    char *text = NULL;

    for (;;) {
        char *larger = realloc(text, size);

        if (!larger)
            break;
        text = larger;
        if (relock_stats_print(client, "program=\"metrics\"", text, size, len) != RELOCK_OK)
            break;
        if (*len < size)
            return text;
        size = *len + 1024; /* numbers may grow meanwhile */
    }
    free(text);
    return NULL;
}

static void *work(void *arg)
{
    struct relock_lock *lock = arg;

    for (;;) {
        if (relock_lock(lock) != RELOCK_OK) {
            sleep(1);
            continue;
        }
        usleep(WORK_US);
        relock_unlock(lock);
    }
    return NULL;
}

static void send_all(int socket, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = send(socket, data, len, MSG_NOSIGNAL);

        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

/* Each request gets the same answer, so it is read and ignored. */
static void answer(int socket)
{
    char request[4096], head[160];
    size_t len = 0;
    char *text = metrics_text(&len);

    (void)recv(socket, request, sizeof(request), 0);
    snprintf(head, sizeof(head),
             "HTTP/1.0 %s\r\nContent-Type: text/plain; version=0.0.4\r\n"
             "Content-Length: %zu\r\n\r\n",
             text ? "200 OK" : "500 Internal Server Error", text ? len : 0);
    send_all(socket, head, strlen(head));
    if (text)
        send_all(socket, text, len);
    free(text);
    close(socket);
}

static int listen_on(unsigned short port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int socket_fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(socket_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(socket_fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(socket_fd, 16) != 0) {
        perror("metrics");
        exit(EXIT_FAILURE);
    }
    return socket_fd;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    unsigned short port = (unsigned short)(argc > 2 ? atoi(argv[2]) : 9121);
    struct relock_lock *lock;
    int listener;
    int r = relock_client_new(&options, &client);

    if (r == RELOCK_OK)
        r = relock_lock_new(client, "orders", &lock);
    if (r != RELOCK_OK) {
        fprintf(stderr, "metrics: %s\n", relock_strerror(r));
        return EXIT_FAILURE;
    }
    listener = listen_on(port);
    for (int i = 0; i < N_THREADS; i++) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, work, lock) != 0)
            return EXIT_FAILURE;
    }
    printf("http://127.0.0.1:%u/metrics\n", port);
    fflush(stdout);
    for (;;) {
        int socket_fd = accept(listener, NULL, NULL);

        if (socket_fd >= 0)
            answer(socket_fd);
    }
}
