#include "unit/common/fake_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

bool fake_server_listen(struct fake_server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);

    server->listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(server->listening, (struct sockaddr *)&address, len) != 0 ||
        listen(server->listening, 8) != 0 ||
        getsockname(server->listening, (struct sockaddr *)&address, &len) != 0)
        return false;
    server->port = ntohs(address.sin_port);
    return true;
}

static void *run(void *arg)
{
    struct fake_server *server = arg;
    int fd;

    while ((fd = accept(server->listening, NULL, NULL)) >= 0) {
        server->serve(server, fd);
        close(fd);
    }
    return NULL;
}

bool fake_server_run(struct fake_server *server, void (*serve)(struct fake_server *server, int fd))
{
    server->serve = serve;
    return pthread_create(&server->thread, NULL, run, server) == 0;
}

void fake_server_stop(struct fake_server *server)
{
    if (server->listening < 0)
        return;
    shutdown(server->listening, SHUT_RDWR);
    pthread_join(server->thread, NULL);
    close(server->listening);
    server->listening = -1;
}

bool fake_server_hear(int fd, char *text, size_t size)
{
    ssize_t n = recv(fd, text, size - 1, 0);

    if (n > 0)
        text[n] = '\0';
    return n > 0;
}

void fake_server_say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}
