/* Loads a name server: a number of connections, each with a number of requests in flight, in one thread.

   load PORT IN_FLIGHT

   Its input begins with the frames, as native 32-bit words and bytes: the number of frames, then each frame's length and bytes; the number
   of connections, then for each the first frame of its series, the frame behind the last one, and the frame to begin
   with. A frame's opaque is FIRST, which each sending replaces with the next number.

   Then it reads lines with a number of seconds, loads the server for so long and waits for the last answers, and prints
   answers a second, p50 and p99 in ms, and how many answers have another code than 0. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define FIRST 100000000u
#define DIGITS 9
#define IN_FLIGHT_AT_MOST (1u << 20)
#define LIMIT_MS 60000
#define ROOM (1u << 18)
static const char OPAQUE[] = "\"opaque\":", OK[] = "{\"code\":0,";

struct frame { char *bytes, *opaque; uint32_t length; };
struct connection { int socket; uint32_t first, end, next, unread_bytes; char *unread; };

static struct frame *frames;
static struct connection *connections;
static uint32_t connection_count, waiting, opaque = FIRST;
static double sent_at[IN_FLIGHT_AT_MOST], *seconds;
static size_t answers, room, failed;

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec * 1e-9;
}

static void take(void *bytes, size_t length) {
    if (fread(bytes, 1, length, stdin) != length) errx(1, "the frames are cut short");
}

static uint32_t word(void) {
    uint32_t found;
    take(&found, sizeof found);
    return found;
}

static void read_frames(void) {
    uint32_t count = word();
    frames = calloc(count, sizeof *frames);
    for (struct frame *each = frames; each < frames + count; each++) {
        each->length = word();
        each->bytes = malloc(each->length);
        take(each->bytes, each->length);
        each->opaque = memmem(each->bytes, each->length, OPAQUE, sizeof OPAQUE - 1);
        if (!each->opaque) errx(1, "a frame without opaque");
        each->opaque += sizeof OPAQUE - 1;
    }
    connection_count = word();
    connections = calloc(connection_count, sizeof *connections);
    for (struct connection *each = connections; each < connections + connection_count; each++) {
        each->first = word(), each->end = word(), each->next = word();
        each->unread = malloc(ROOM);
    }
}

static void write_all(int socket, const char *bytes, size_t length) {
    for (ssize_t sent; length; bytes += sent, length -= sent)
        if ((sent = send(socket, bytes, length, MSG_NOSIGNAL)) < 0) err(1, "send");
}

static void send_requests(struct connection *to, uint32_t count) {
    static char joined[ROOM];
    size_t bytes = 0;
    double at = now();
    for (; count; count--, waiting++) {
        struct frame *each = &frames[to->next];
        to->next = to->next + 1 < to->end ? to->next + 1 : to->first;
        char digits[DIGITS + 1];
        snprintf(digits, sizeof digits, "%u", opaque);
        memcpy(each->opaque, digits, DIGITS);
        sent_at[opaque++ % IN_FLIGHT_AT_MOST] = at;
        if (bytes + each->length > ROOM) write_all(to->socket, joined, bytes), bytes = 0;
        if (each->length > ROOM) write_all(to->socket, each->bytes, each->length);
        else memcpy(joined + bytes, each->bytes, each->length), bytes += each->length;
    }
    write_all(to->socket, joined, bytes);
}

static void count_answer(const char *answer, uint32_t length) {
    const char *at = memmem(answer, length, OPAQUE, sizeof OPAQUE - 1);
    if (!at) errx(1, "an answer without opaque");
    if (answers == room) seconds = realloc(seconds, (room = room ? 2 * room : 1 << 16) * sizeof *seconds);
    seconds[answers++] = now() - sent_at[strtoul(at + sizeof OPAQUE - 1, NULL, 10) % IN_FLIGHT_AT_MOST];
    failed += memcmp(answer + 8, OK, sizeof OK - 1) != 0;
    waiting--;
}

/* Returns how many answers have come. The part of an answer that has come is kept. */
static uint32_t receive(struct connection *from) {
    ssize_t came = recv(from->socket, from->unread + from->unread_bytes, ROOM - from->unread_bytes, 0);
    if (came <= 0) errx(1, "the server has closed the connection");
    uint32_t have = from->unread_bytes + came, at = 0, found = 0;
    while (have - at >= 4) {
        uint32_t length = 4 + ntohl(*(uint32_t *)(from->unread + at));
        if (length > ROOM) errx(1, "an answer of %u bytes", length);
        if (have - at < length) break;
        count_answer(from->unread + at, length);
        at += length, found++;
    }
    from->unread_bytes = have - at;
    memmove(from->unread, from->unread + at, from->unread_bytes);
    return found;
}

static int compared(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

static void load(int poll, uint32_t in_flight, double for_s) {
    double began = now();
    answers = failed = 0;
    for (uint32_t each = 0; each < connection_count; each++) send_requests(&connections[each], in_flight);
    while (waiting) {
        struct epoll_event events[256];
        int count = epoll_wait(poll, events, 256, LIMIT_MS);
        if (count <= 0) errx(1, "no answer within 60 s");
        for (int each = 0; each < count; each++) {
            uint32_t answered = receive(events[each].data.ptr);
            if (answered && now() < began + for_s) send_requests(events[each].data.ptr, answered);
        }
    }
    double taken = now() - began;
    qsort(seconds, answers, sizeof *seconds, compared);
    printf("%f %f %f %zu\n", answers / taken, seconds[answers / 2] * 1e3, seconds[answers * 99 / 100] * 1e3, failed);
    fflush(stdout);
}

int main(int count, char **arguments) {
    if (count != 3) errx(2, "load PORT IN_FLIGHT");
    read_frames();
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1])), .sin_addr = {htonl(0x7f000001)}};
    int poll = epoll_create1(0), on = 1;
    for (struct connection *each = connections; each < connections + connection_count; each++) {
        each->socket = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(each->socket, (struct sockaddr *)&server, sizeof server)) err(1, "port %s", arguments[1]);
        setsockopt(each->socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        epoll_ctl(poll, EPOLL_CTL_ADD, each->socket, &(struct epoll_event){.events = EPOLLIN, .data.ptr = each});
    }
    char line[64];
    while (fgets(line, sizeof line, stdin)) load(poll, atoi(arguments[2]), atof(line));
}
