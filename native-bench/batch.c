// Jobs through workers: `build/batch` has connections reserve and delete all jobs of some tubes, so
// many at a time: with reserve-batch and delete-batch, or (--single) with as many single commands
// in a pipeline. Both ways send one write for the reserves and one for the deletes of a round, and
// read replies with the same parser.
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "connection.h"
#include "options.h"
#include "reply.h"
#include "scenario.h"

#define BATCH_WORD "RESERVED_BATCH "
#define DELETED_WORD "DELETED_BATCH "
#define ID_DIGITS 20

enum step { STEP_RESERVE, STEP_DELETE, STEP_OVER };

struct worker {
  struct connection connection;
  enum step step;
  uint64_t *ids;     // of the jobs that it holds
  uint32_t held;
  uint32_t awaited;  // replies; of a batch first its line, then its jobs
  bool in_batch;     // the line of a batch has come
};

static const char *host = "127.0.0.1", *port = "11300", *prefix = "bench";
static uint32_t connections = 50, batch = 100, tubes = 8;
static bool single;
static uint64_t done;

static void append(struct worker *w, const char *bytes, size_t count) {
  memcpy(buffer_room(&w->connection.out, count), bytes, count);
  w->connection.out.end += count;
}

static void append_number(struct worker *w, uint64_t number) {
  char digits[ID_DIGITS];
  size_t first = sizeof digits;
  do digits[--first] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  append(w, digits + first, sizeof digits - first);
}

static void reserve(struct worker *w) {
  w->step = STEP_RESERVE;
  w->held = 0;
  w->in_batch = false;
  if (!single) {
    append(w, "reserve-batch ", 14);
    append_number(w, batch);
    append(w, " 0\r\n", 4);
  } else {
    for (uint32_t i = 0; i < batch; i++) append(w, "reserve-with-timeout 0\r\n", 24);
  }
  w->awaited = single ? batch : 1;
}

static void delete_held(struct worker *w) {
  w->step = STEP_DELETE;
  if (!single) append(w, "delete-batch", 12);
  for (uint32_t i = 0; i < w->held; i++) {
    if (single) append(w, "delete ", 7);
    else append(w, " ", 1);
    append_number(w, w->ids[i]);
    if (single) append(w, "\r\n", 2);
  }
  if (!single) append(w, "\r\n", 2);
  w->awaited = single ? w->held : 1;
}

static bool starts(const struct reply *r, const char *word) {
  return r->line_bytes > strlen(word) && memcmp(r->line, word, strlen(word)) == 0;
}

static void wrong(const struct reply *r) { fail("wrong reply: %.*s", (int)r->line_bytes, r->line); }

static void take_reply(struct worker *w, const struct reply *r) {
  w->awaited--;
  if (w->step == STEP_DELETE) {
    if (single && r->kind != REPLY_DELETED) wrong(r);
    if (!single && (!starts(r, DELETED_WORD) || strtoul(r->line + strlen(DELETED_WORD), NULL, 10) != w->held)) wrong(r);
    return;
  }
  if (r->kind == REPLY_RESERVED && (single || w->in_batch)) {
    w->ids[w->held++] = r->number;
  } else if (!single && !w->in_batch && starts(r, BATCH_WORD)) {
    w->in_batch = true;
    w->awaited = (uint32_t)strtoul(r->line + strlen(BATCH_WORD), NULL, 10);
    if (w->awaited > batch) wrong(r);
  } else if (r->kind != REPLY_TIMED_OUT) {
    wrong(r);
  }
}

static void next_step(struct worker *w) {
  if (w->step == STEP_DELETE) {
    done += w->held;
    reserve(w);
  } else if (w->held > 0) {
    delete_held(w);
  } else {
    w->step = STEP_OVER;
    return;
  }
  if (!connection_flush(&w->connection)) fail("the server doesn't read");
}

static void on_readable(struct worker *w) {
  struct buffer *in = &w->connection.in;
  char *room = buffer_room(in, 65536);
  ssize_t n = recv(w->connection.fd, room, in->capacity - in->end, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) fail("the connection ended: %s", n == 0 ? "closed" : strerror(errno));
  in->end += (size_t)n;
  struct reply r;
  size_t wanted;
  while (w->awaited > 0 && in->start < in->end) {
    long bytes = reply_parse(in->bytes + in->start, in->end - in->start, &r, &wanted);
    if (bytes < 0) fail("no reply of the protocol");
    if (bytes == 0) break;
    take_reply(w, &r);
    in->start += (size_t)bytes;
  }
  if (w->awaited == 0) next_step(w);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void parse(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *name = argv[i];
    if (strcmp(name, "--single") == 0) {
      single = true;
      continue;
    }
    if (++i == argc) fail("usage: batch [--single] [--host H] [--port P] [--connections N] [--batch N] [--tubes N] [--tube PREFIX]");
    if (strcmp(name, "--host") == 0) host = argv[i];
    else if (strcmp(name, "--port") == 0) port = argv[i];
    else if (strcmp(name, "--tube") == 0) prefix = argv[i];
    else if (strcmp(name, "--connections") == 0) connections = (uint32_t)atoi(argv[i]);
    else if (strcmp(name, "--batch") == 0) batch = (uint32_t)atoi(argv[i]);
    else if (strcmp(name, "--tubes") == 0) tubes = (uint32_t)atoi(argv[i]);
    else fail("unknown option %s", name);
  }
  if (connections == 0 || batch == 0 || batch > 1000 || tubes == 0) fail("a number is out of range");
}

int main(int argc, char **argv) {
  parse(argc, argv);
  // All are consumers, and watch all tubes.
  static const struct program consumer = {.steps = {{ACTION_RESERVE}}};
  static const struct scenario scenario = {.consumer = &consumer, .separate_watchers = true, .layout = TUBES_ALL};
  struct options o = {.host = host, .port = port, .tube_prefix = prefix, .tubes = tubes, .scenario = &scenario, .pipeline = batch};
  struct worker *workers = calloc(connections, sizeof *workers);
  int poll = epoll_create1(EPOLL_CLOEXEC);
  if (!workers || poll < 0) fail("no memory, or no descriptors");
  for (uint32_t i = 0; i < connections; i++) {
    struct worker *w = &workers[i];
    connection_open(&w->connection, i, &o);
    w->ids = calloc(batch, sizeof *w->ids);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = w};
    if (!w->ids || epoll_ctl(poll, EPOLL_CTL_ADD, w->connection.fd, &event) != 0) fail("epoll: %s", strerror(errno));
  }
  double began = now();
  for (uint32_t i = 0; i < connections; i++) {
    reserve(&workers[i]);
    if (!connection_flush(&workers[i].connection)) fail("the server doesn't read");
  }
  for (uint32_t over = 0; over < connections;) {
    struct epoll_event events[64];
    int n = epoll_wait(poll, events, 64, 30000);
    if (n == 0) fail("no reply for 30 s");
    for (int i = 0; i < n; i++) {
      struct worker *w = events[i].data.ptr;
      if (w->step == STEP_OVER) continue;
      on_readable(w);
      if (w->step == STEP_OVER) over++;
    }
  }
  double seconds = now() - began;
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  printf("{\"jobs\":%lu,\"seconds\":%.6f,\"generatorCpuSeconds\":%.3f}\n", (unsigned long)done, seconds, cpu);
  return 0;
}
