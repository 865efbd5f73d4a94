/* The connections of `pump`: plain sockets, or TLS 1.3 over them. OpenSSL is loaded when TLS is wanted, and the few
 * functions that are used of it are declared here, so neither its headers nor a library are needed to compile. It works in
 * memory: bytes are received and sent in one call of the system for many records of TLS.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS = 100, READ_BYTES = 1 << 20, CIPHERTEXT_BYTES = 1 << 18 };

struct link {
    int fd;
    void *tls, *incoming, *outgoing; /* OpenSSL's connection, ciphertext received and to be sent; no TLS: NULL */
    uint8_t *sealed;                 /* ciphertext of what is being sent */
    size_t sealed_room;
    const uint8_t *out; /* bytes that the socket has not accepted yet, and how many */
    size_t left;
    uint8_t *bytes; /* producer: its burst; consumer: the start of a delivery that is not complete */
    size_t size;    /* bytes in `bytes` */
    uint32_t messages;
    uint64_t received, acked; /* consumer: bytes of deliveries received, deliveries acked; producer: bytes of confirms */
};

static volatile sig_atomic_t ending;

static void fail(const char *what) {
    fprintf(stderr, "pump: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* OpenSSL */

#define OPENSSL(of) \
    of(const void *, TLS_client_method, (void)) \
    of(void *, SSL_CTX_new, (const void *)) \
    of(long, SSL_CTX_ctrl, (void *, int, long, void *)) \
    of(int, SSL_CTX_load_verify_locations, (void *, const char *, const char *)) \
    of(void, SSL_CTX_set_verify, (void *, int, void *)) \
    of(void *, SSL_new, (void *)) \
    of(long, SSL_ctrl, (void *, int, long, void *)) \
    of(int, SSL_set1_host, (void *, const char *)) \
    of(void, SSL_set_connect_state, (void *)) \
    of(void, SSL_set_bio, (void *, void *, void *)) \
    of(int, SSL_do_handshake, (void *)) \
    of(int, SSL_read, (void *, void *, int)) \
    of(int, SSL_write, (void *, const void *, int)) \
    of(int, SSL_get_error, (const void *, int)) \
    of(const void *, BIO_s_mem, (void)) \
    of(void *, BIO_new, (const void *)) \
    of(int, BIO_read, (void *, void *, int)) \
    of(int, BIO_write, (void *, const void *, int)) \
    of(size_t, BIO_ctrl_pending, (void *)) \
    of(unsigned long, ERR_get_error, (void)) \
    of(const char *, ERR_reason_error_string, (unsigned long))

#define DECLARE(type, name, parameters) static type(*name) parameters;
OPENSSL(DECLARE)

enum { SET_MIN_PROTO_VERSION = 123, TLS1_3_VERSION = 0x304, SET_HOST_NAME = 55, VERIFY_PEER = 1, WANT_READ = 2 };

static void *context; /* NULL without TLS */
static const char *host, *port;

static void fail_tls(const char *what) {
    const char *reason = ERR_reason_error_string(ERR_get_error());
    fprintf(stderr, "pump: %s: %s\n", what, reason ? reason : "the broker hung up");
    exit(1);
}

static void load_openssl(void) {
    void *library = dlopen("libssl.so.3", RTLD_NOW);
    if (!library) {
        fprintf(stderr, "pump: TLS needs OpenSSL 3: %s\n", dlerror());
        exit(1);
    }
#define LOAD(type, name, parameters) *(void **)&name = dlsym(library, #name);
    OPENSSL(LOAD)
}

/* Have all connections use TLS, to this host and port. The broker is verified by a file of authorities, "-" for none. */
static void begin_tls(char **arguments) {
    host = arguments[0];
    port = arguments[1];
    load_openssl();
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_ctrl(context, SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL);
    if (strcmp(arguments[2], "-")) {
        if (!SSL_CTX_load_verify_locations(context, arguments[2], NULL))
            fail_tls("the file of authorities cannot be read");
        SSL_CTX_set_verify(context, VERIFY_PEER, NULL);
    }
}

static bool is_address(const char *text) {
    uint8_t found[16];
    return inet_pton(AF_INET, text, found) == 1 || inet_pton(AF_INET6, text, found) == 1;
}

/* Sending */

/* Have `out` begin with these bytes, or with what TLS makes of them and has to send before them. */
static void prepare(struct link *link, const uint8_t *bytes, size_t size) {
    link->out = bytes;
    link->left = size;
    if (!link->tls)
        return;
    if (size && SSL_write(link->tls, bytes, size) <= 0)
        fail_tls("a connection broke");
    link->left = BIO_ctrl_pending(link->outgoing);
    if (link->left > link->sealed_room)
        link->sealed = realloc(link->sealed, link->sealed_room = link->left);
    link->out = link->sealed;
    BIO_read(link->outgoing, link->sealed, link->left);
}

/* Send some of `out`, as much as the socket accepts. */
static void send_some(struct link *link) {
    ssize_t written = write(link->fd, link->out, link->left);
    if (written < 0 && errno != EAGAIN && errno != EINTR)
        fail("a connection broke");
    if (written > 0) {
        link->out += written;
        link->left -= written;
    }
}

static void send_all(struct link *link, const uint8_t *bytes, size_t size) {
    struct pollfd waits = {.fd = link->fd, .events = POLLOUT};
    prepare(link, bytes, size);
    for (send_some(link); link->left && !ending; send_some(link))
        poll(&waits, 1, WAIT_MS);
}

/* Receiving */

static ssize_t read_some(struct link *link, void *bytes, size_t room) {
    ssize_t got = read(link->fd, bytes, room);
    if (got == 0) {
        fprintf(stderr, "pump: the broker closed a connection\n");
        exit(1);
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR)
        fail("a connection broke");
    return got < 0 ? 0 : got;
}

static void take_ciphertext(struct link *link) {
    static uint8_t bytes[CIPHERTEXT_BYTES];
    BIO_write(link->incoming, bytes, read_some(link, bytes, sizeof bytes));
}

/* Receive what has come; return how many bytes, 0 for none. With TLS there has to be room for `CIPHERTEXT_BYTES`, and for
 * a record of which most came before. */
static size_t receive(struct link *link, uint8_t *bytes, size_t room) {
    if (!link->tls)
        return read_some(link, bytes, room);
    take_ciphertext(link);
    size_t size = 0;
    int found;
    while ((found = SSL_read(link->tls, bytes + size, room - size)) > 0)
        size += found;
    if (SSL_get_error(link->tls, found) != WANT_READ)
        fail_tls("a connection ended");
    return size;
}

/* Opening */

static int dial(void) {
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int fd = -1, on = 1;
    if (getaddrinfo(host, port, &wanted, &found))
        fail("the host is not known");
    for (struct addrinfo *at = found; at && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen)) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        fail("the broker cannot be reached");
    freeaddrinfo(found);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void shake_hands(struct link *link) {
    link->tls = SSL_new(context);
    link->incoming = BIO_new(BIO_s_mem());
    link->outgoing = BIO_new(BIO_s_mem());
    SSL_set_bio(link->tls, link->incoming, link->outgoing);
    SSL_set_connect_state(link->tls);
    SSL_set1_host(link->tls, host);
    if (!is_address(host))
        SSL_ctrl(link->tls, SET_HOST_NAME, 0, (void *)host);
    for (;;) {
        int done = SSL_do_handshake(link->tls);
        send_all(link, NULL, 0);
        if (done == 1 || ending)
            return;
        if (SSL_get_error(link->tls, done) != WANT_READ)
            fail_tls("the TLS handshake failed");
        take_ciphertext(link);
    }
}

/* Pass bytes between the connection and the door until the other end of the door is closed. */
static void relay(struct link *link, int door) {
    static uint8_t bytes[READ_BYTES];
    struct pollfd waits[2] = {{.fd = link->fd, .events = POLLIN}, {.fd = door, .events = POLLIN}};
    while (!ending) {
        if (poll(waits, 2, WAIT_MS) <= 0)
            continue;
        if (waits[0].revents) {
            size_t got = receive(link, bytes, sizeof bytes);
            if (got && write(door, bytes, got) < 0)
                break;
        }
        if (waits[1].revents) {
            ssize_t got = read(door, bytes, sizeof bytes);
            if (got <= 0)
                break;
            send_all(link, bytes, got);
        }
    }
    close(door);
}

/* Open a connection that AMQP has opened already; with TLS it is opened through this descriptor, a door. */
static void open_link(struct link *link, int fd) {
    link->fd = fd;
    if (context) {
        link->fd = dial();
        shake_hands(link);
        relay(link, fd);
    }
}
