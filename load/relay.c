/* The least that a message costs on its way through two processes, as it takes through an acceptor and a shard. The first
 * process passes what a producer sends to the second one and back, over a Unix socket, and from there to a consumer. Both
 * wait in epoll, and make one call of the system for each time that they read or write.
 *
 *     relay                                  prints its port; the first connection is the consumer's, the second one the
 *                                            producer's. It ends when one of them is closed.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 1 << 20, EVENTS = 4 };

static char bytes[ROOM];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static int listen_on_loopback(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(fd, (struct sockaddr *)&at, size) || listen(fd, 2) || getsockname(fd, (struct sockaddr *)&at, &size))
        fail("relay: listen");
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static int accept_client(int listener) {
    int on = 1, fd = accept(listener, NULL, NULL);
    if (fd < 0)
        fail("relay: accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void watch(int poller, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event))
        fail("relay: epoll_ctl");
}

static void pass(int from, int to) {
    ssize_t size = read(from, bytes, sizeof bytes);
    if (size <= 0)
        exit(0);
    for (ssize_t at = 0, done; at < size; at += done)
        if ((done = write(to, bytes + at, size - at)) <= 0)
            exit(0);
}

int main(void) {
    int listener = listen_on_loopback(), link[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, link))
        fail("relay: socketpair");
    int is_second = !fork(), poller = epoll_create1(0);
    int consumer = -1, near = link[is_second];
    close(link[!is_second]);
    if (!is_second) {
        consumer = accept_client(listener);
        watch(poller, consumer);
        watch(poller, accept_client(listener));
    }
    close(listener);
    watch(poller, near);
    for (;;) {
        struct epoll_event events[EVENTS];
        int found = epoll_wait(poller, events, EVENTS, -1);
        for (int i = 0; i < found; i++) {
            int fd = events[i].data.fd;
            pass(fd, fd != near || is_second ? near : consumer);
        }
    }
}
