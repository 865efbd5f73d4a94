/* One end of a benchmark, written in C so that it leaves more of the machine to the broker. `load.pump` opens the
 * connections, passes the bytes to write or the size of a delivery, and starts this program with their descriptors.
 *
 *     pump produce RATE STAMP FD...          standard input: for each connection the size of its burst in bytes
 *                                            (4, big-endian) and messages (4), then these bytes
 *     pump consume EACH PREFETCH STAMP FD... EACH: bytes of a delivery; with a prefetch half of it is acked at a time
 *     pump tls HOST PORT AUTHORITY produce|consume ...
 *
 * Both print the number of messages every 50 ms and at the end: nanoseconds of the monotonic clock, and the count.
 * RATE is messages a second of all connections together, 0 for as many as the sockets accept, and `confirmed` for one
 * message after the other in each connection: the next one is written when the last one is confirmed. STAMP is the
 * position of the time stamp in a message, counted from its end, -1 for none. SIGTERM ends the program; a consumer that
 * reads stamps then prints the latencies in nanoseconds: "latency COUNT P50 P99 MAX". SIGUSR1 discards those read so far.
 *
 * With TLS the program makes its connections itself, one after the other. Each FD is a door to one: the other program
 * opens AMQP through it, in plaintext, and closes it when the connection is to be used. AUTHORITY is a file of authorities
 * that the broker is verified by, "-" for none.
 */
#include <fcntl.h>
#include <sys/epoll.h>
#include <time.h>

#include "link.h"

enum { REPORT_NS = 50 * 1000 * 1000, EVENTS = 64, CONFIRM_BYTES = 21 };

static volatile sig_atomic_t forgetting;
static uint64_t total, reported_at;
static int64_t *samples;
static size_t sample_count, sample_room;

static void on_signal(int number) {
    if (number == SIGTERM)
        ending = 1;
    else
        forgetting = 1;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void print_count(uint64_t now) {
    reported_at = now;
    printf("%llu %llu\n", (unsigned long long)now, (unsigned long long)total);
    fflush(stdout);
}

static void report(void) {
    uint64_t now = now_ns();
    if (now >= reported_at + REPORT_NS)
        print_count(now);
}

static void put64(uint8_t *at, uint64_t value) {
    for (int i = 7; i >= 0; i--, value >>= 8)
        at[i] = value;
}

static uint64_t get64(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | at[i];
    return value;
}

static uint32_t read_number(void) {
    uint8_t bytes[4];
    if (fread(bytes, 1, sizeof bytes, stdin) != sizeof bytes)
        fail("standard input ends too early");
    return (uint32_t)bytes[0] << 24 | bytes[1] << 16 | bytes[2] << 8 | bytes[3];
}

static void watch(int poller, struct link *link, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = link};
    fcntl(link->fd, F_SETFL, fcntl(link->fd, F_GETFL) | O_NONBLOCK);
    if (epoll_ctl(poller, EPOLL_CTL_ADD, link->fd, &event))
        fail("a connection cannot be watched");
}

/* Producers */

static uint8_t scratch[READ_BYTES];

static void produce_some(struct link *link) {
    if (!link->left)
        prepare(link, link->bytes, link->size);
    send_some(link);
    if (!link->left)
        total += link->messages;
}

static void produce_flat_out(struct link *links, int count) {
    int poller = epoll_create1(0);
    for (int i = 0; i < count; i++)
        watch(poller, &links[i], EPOLLIN | EPOLLOUT);
    while (!ending) {
        struct epoll_event events[EVENTS];
        int found = epoll_wait(poller, events, EVENTS, WAIT_MS);
        for (int i = 0; i < found; i++) {
            struct link *link = events[i].data.ptr;
            if (events[i].events & EPOLLIN)
                receive(link, scratch, sizeof scratch);
            if (events[i].events & EPOLLOUT)
                produce_some(link);
        }
        report();
    }
}

static void produce_confirmed(struct link *links, int count) {
    int poller = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        watch(poller, &links[i], EPOLLIN);
        send_all(&links[i], links[i].bytes, links[i].size);
    }
    while (!ending) {
        struct epoll_event events[EVENTS];
        int found = epoll_wait(poller, events, EVENTS, WAIT_MS);
        for (int i = 0; i < found; i++) {
            struct link *link = events[i].data.ptr;
            link->received += receive(link, scratch, sizeof scratch);
            for (; link->received >= CONFIRM_BYTES; link->received -= CONFIRM_BYTES) {
                total++;
                send_all(link, link->bytes, link->size);
            }
        }
        report();
    }
}

static void wait_until(uint64_t moment) {
    struct timespec at = {.tv_sec = moment / 1000000000, .tv_nsec = moment % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static void produce_at(double rate, long stamp, struct link *links, int count) {
    uint64_t began = now_ns();
    while (!ending) {
        uint64_t due = began + (uint64_t)(total / rate * 1e9);
        if (due > now_ns()) {
            report();
            wait_until(due);
            continue;
        }
        struct link *link = &links[total % count];
        if (stamp >= 0)
            put64(link->bytes + link->size - stamp, now_ns());
        send_all(link, link->bytes, link->size);
        total++;
    }
}

static void produce(char **arguments, int count) {
    bool waits = !strcmp(arguments[0], "confirmed");
    double rate = atof(arguments[0]);
    long stamp = atol(arguments[1]);
    struct link *links = calloc(count, sizeof *links);
    for (int i = 0; i < count; i++) {
        links[i].size = read_number();
        links[i].messages = read_number();
        links[i].bytes = malloc(links[i].size);
        if (fread(links[i].bytes, 1, links[i].size, stdin) != links[i].size)
            fail("standard input ends too early");
    }
    for (int i = 0; i < count; i++)
        open_link(&links[i], atoi(arguments[2 + i]));
    if (waits)
        produce_confirmed(links, count);
    else if (rate > 0)
        produce_at(rate, stamp, links, count);
    else
        produce_flat_out(links, count);
    print_count(now_ns());
}

/* Consumers */

static void acknowledge(struct link *link, uint64_t tag) {
    uint8_t frame[21] = {1, 0, 1, 0, 0, 0, 13, 0, 60, 0, 80, [19] = 1, [20] = 0xCE};
    put64(frame + 11, tag);
    send_all(link, frame, sizeof frame);
    link->acked = tag;
}

static void take_sample(int64_t took) {
    if (sample_count == sample_room) {
        sample_room = sample_room ? 2 * sample_room : 1 << 16;
        samples = realloc(samples, sample_room * sizeof *samples);
    }
    samples[sample_count++] = took;
}

/* Read the stamps of whole deliveries; keep the rest for the next call. */
static void read_stamps(struct link *link, size_t each, long stamp) {
    uint64_t now = now_ns();
    size_t at = 0;
    for (; link->size - at >= each; at += each)
        take_sample((int64_t)(now - get64(link->bytes + at + each - stamp)));
    memmove(link->bytes, link->bytes + at, link->size - at);
    link->size -= at;
}

static void receive_deliveries(struct link *link, size_t each, uint64_t prefetch, long stamp) {
    size_t got = receive(link, link->bytes + link->size, READ_BYTES - link->size);
    uint64_t before = link->received / each;
    link->received += got;
    uint64_t tag = link->received / each;
    total += tag - before;
    if (stamp >= 0) {
        link->size += got;
        read_stamps(link, each, stamp);
    }
    if (prefetch && tag > link->acked && (stamp >= 0 || tag - link->acked >= (prefetch + 1) / 2))
        acknowledge(link, tag);
}

static int compare(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static void print_latency(void) {
    qsort(samples, sample_count, sizeof *samples, compare);
    size_t last = sample_count ? sample_count - 1 : 0;
    int64_t none = 0, *sorted = sample_count ? samples : &none;
    printf("latency %zu %lld %lld %lld\n", sample_count, (long long)sorted[last / 2],
           (long long)sorted[(size_t)(last * 0.99)], (long long)sorted[last]);
}

static void consume(char **arguments, int count) {
    size_t each = atol(arguments[0]);
    uint64_t prefetch = atol(arguments[1]);
    long stamp = atol(arguments[2]);
    struct link *links = calloc(count, sizeof *links);
    int poller = epoll_create1(0);
    for (int i = 0; i < count; i++) {
        links[i].bytes = malloc(READ_BYTES);
        open_link(&links[i], atoi(arguments[3 + i]));
        watch(poller, &links[i], EPOLLIN);
    }
    while (!ending) {
        struct epoll_event events[EVENTS];
        int found = epoll_wait(poller, events, EVENTS, REPORT_NS / 1000000);
        for (int i = 0; i < found; i++)
            receive_deliveries(events[i].data.ptr, each, prefetch, stamp);
        if (forgetting)
            forgetting = sample_count = 0;
        report();
    }
    print_count(now_ns());
    if (stamp >= 0)
        print_latency();
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    if (count > 5 && !strcmp(arguments[1], "tls")) {
        begin_tls(arguments + 2);
        arguments += 4;
        count -= 4;
    }
    if (count > 4 && !strcmp(arguments[1], "produce"))
        produce(arguments + 2, count - 4);
    else if (count > 5 && !strcmp(arguments[1], "consume"))
        consume(arguments + 2, count - 5);
    else {
        fprintf(stderr, "pump: see the head of pump.c\n");
        return 2;
    }
    return 0;
}
