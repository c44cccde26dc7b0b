// Opening, filling and emptying a connection.
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

// commands sent at once while selecting tubes; few enough for any socket buffer
#define SETUP_BATCH 200

void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("beanload: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

char *buffer_room(struct buffer *b, size_t bytes) {
  if (b->capacity - b->end >= bytes) return b->bytes + b->end;
  size_t used = b->end - b->start;
  if (b->start > 0) memmove(b->bytes, b->bytes + b->start, used);
  b->start = 0;
  b->end = used;
  if (b->capacity - used < bytes) {
    size_t capacity = b->capacity ? b->capacity : 16384;
    while (capacity - used < bytes) capacity *= 2;
    b->bytes = realloc(b->bytes, capacity);
    if (!b->bytes) fail("out of memory for a buffer of %zu bytes", capacity);
    b->capacity = capacity;
  }
  return b->bytes + used;
}

bool connection_flush(struct connection *c) {
  struct buffer *b = &c->out;
  while (b->start < b->end) {
    ssize_t n = send(c->fd, b->bytes + b->start, b->end - b->start, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) fail("connection %u: send: %s", c->index, strerror(errno));
    b->start += (size_t)n;
  }
  b->start = b->end = 0;
  return true;
}

static int connect_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) fail("socket path too long: %s", path);
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) fail("%s: %s", path, strerror(errno));
  return fd;
}

static int connect_tcp(const char *host, const char *port) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  int problem = getaddrinfo(host, port, &hints, &found);
  if (problem) fail("%s port %s: %s", host, port, gai_strerror(problem));
  int fd = -1;
  for (struct addrinfo *a = found; a; a = a->ai_next) {
    fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0) break;
    if (!a->ai_next) fail("%s port %s: %s", host, port, strerror(errno));
    close(fd);
  }
  freeaddrinfo(found);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// Sends what stands in `out` and reads `replies` lines, each of which must begin with USING or
// WATCHING.
static void exchange(struct connection *c, uint32_t replies) {
  if (!connection_flush(c)) fail("connection %u: the server doesn't read", c->index);
  char line[512];
  size_t used = 0;
  while (replies > 0) {
    char bytes[4096];
    ssize_t n = recv(c->fd, bytes, sizeof bytes, 0);
    if (n <= 0) fail("connection %u: no reply while selecting tubes: %s", c->index, n == 0 ? "closed" : strerror(errno));
    for (ssize_t i = 0; i < n; i++) {
      if (used == sizeof line - 1) fail("connection %u: endless reply", c->index);
      line[used++] = bytes[i];
      if (bytes[i] != '\n') continue;
      line[used - 1] = 0;
      if (strncmp(line, "USING ", 6) != 0 && strncmp(line, "WATCHING ", 9) != 0)
        fail("connection %u: wrong reply while selecting tubes: %s", c->index, line);
      used = 0;
      replies--;
    }
  }
}

static void say(struct connection *c, const char *format, ...) {
  char *room = buffer_room(&c->out, 256);
  va_list arguments;
  va_start(arguments, format);
  c->out.end += (size_t)vsnprintf(room, 256, format, arguments);
  va_end(arguments);
}

static void select_tubes(struct connection *c, const struct options *o) {
  const struct scenario *s = o->scenario;
  const char *prefix = o->tube_prefix;
  if (c->program->steps[0][0] == ACTION_ECHO) return;
  if (s->layout == TUBES_ALL) {
    if (!c->is_consumer) return;
    for (uint32_t t = 0; t < o->tubes;) {
      uint32_t until = o->tubes - t > SETUP_BATCH ? t + SETUP_BATCH : o->tubes;
      uint32_t replies = until - t;
      for (; t < until; t++) say(c, "watch %s-%u\r\n", prefix, t);
      exchange(c, replies);
    }
    say(c, "ignore default\r\n");
    exchange(c, 1);
    return;
  }
  // A producer and the consumer after it share a tube.
  uint32_t group = s->consumer ? c->index / 2 : c->index;
  uint32_t tube = s->layout == TUBES_OWN ? c->index : group % o->tubes;
  c->tube = tube;
  say(c, "use %s-%u\r\nwatch %s-%u\r\nignore default\r\n", prefix, tube, prefix, tube);
  exchange(c, 3);
}

static void *zeroed(size_t count, size_t size) {
  void *p = calloc(count, size);
  if (!p) fail("out of memory");
  return p;
}

void connection_open(struct connection *c, uint32_t index, const struct options *o) {
  const struct scenario *s = o->scenario;
  *c = (struct connection){.index = index, .program = &s->producer, .driver = index};
  if (s->consumer) {
    c->is_consumer = s->separate_watchers ? index >= o->connections : index % 2 == 1;
    c->driver = s->separate_watchers ? index : index / 2;
    if (c->is_consumer) c->program = s->consumer;
  }
  struct timespec opened;
  clock_gettime(CLOCK_MONOTONIC, &opened);
  c->next_key = (uint64_t)opened.tv_sec * 1000000 + (uint64_t)opened.tv_nsec / 1000;
  uint32_t slots = 4;
  while (slots < o->pipeline * 2 + 2) slots *= 2;
  c->pending = zeroed(slots, sizeof *c->pending);
  c->pending_mask = slots - 1;
  c->held = zeroed(o->pipeline, sizeof *c->held);

  c->fd = o->host[0] == '/' ? connect_unix(o->host) : connect_tcp(o->host, o->port);
  struct timeval patience = {.tv_sec = 30};
  setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  select_tubes(c, o);
  fcntl(c->fd, F_SETFL, fcntl(c->fd, F_GETFL) | O_NONBLOCK);
}
