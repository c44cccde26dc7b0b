// Sends, receives, checks and measures. A connection sends a step of its program, waits for all its
// replies, and goes on. Producers start an operation when the last one is over (closed loop) or
// when the clock says so (--rate); then the latency counts from the time the clock said, however
// late the command left.
#include "loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "reply.h"

#define READ_BYTES 65536
#define PATIENCE_NS (UINT64_C(10) * 1000000000) // for the last replies
// consumers are left alone once nothing has come for this long
#define QUIET_NS UINT64_C(100000000)
// a job may come this much before its delay ends by our clock
#define EARLY_NS UINT64_C(2000000)

const char *const metric_names[METRIC_COUNT] = {"command", "list", "put", "reserve", "delete", "bury", "kick", "delivery", "cycle"};

static const uint8_t metric_of[ACTION_COUNT] = {
    [ACTION_LIST_TUBE_USED] = METRIC_LIST, [ACTION_ECHO] = METRIC_LIST,      [ACTION_PUT] = METRIC_PUT,
    [ACTION_RESERVE] = METRIC_RESERVE,     [ACTION_RESERVE_NOW] = METRIC_RESERVE, [ACTION_DELETE] = METRIC_DELETE,
    [ACTION_BURY] = METRIC_BURY,           [ACTION_KICK] = METRIC_KICK,
};

static const uint8_t reply_of[ACTION_COUNT] = {
    [ACTION_LIST_TUBE_USED] = REPLY_USING, [ACTION_ECHO] = REPLY_ECHO,            [ACTION_PUT] = REPLY_INSERTED,
    [ACTION_USE_AND_PUT] = REPLY_USING,    [ACTION_RESERVE] = REPLY_RESERVED,     [ACTION_RESERVE_NOW] = REPLY_RESERVED,
    [ACTION_DELETE] = REPLY_DELETED,       [ACTION_BURY] = REPLY_BURIED,          [ACTION_KICK] = REPLY_KICKED,
};

uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t next_random(struct loop *l) {
  l->random ^= l->random << 13;
  l->random ^= l->random >> 7;
  l->random ^= l->random << 17;
  return l->random >> 11;
}

static bool is_over(const struct loop *l, uint64_t now) { return now >= l->run->deadline_ns; }

static void finish(struct loop *l, struct connection *c) {
  if (c->state == CONNECTION_FINISHED) return;
  c->state = CONNECTION_FINISHED;
  if (c->is_consumer) return;
  l->drivers_left--;
  atomic_fetch_sub(&l->run->drivers_left, 1);
}

static void flush(struct loop *l, struct connection *c) {
  bool blocked = !connection_flush(c);
  if (blocked == c->wants_writable) return;
  struct epoll_event event = {.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
  if (epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
  c->wants_writable = blocked;
}

// The intended time of the i-th operation of the batch.
static uint64_t intended_ns(const struct loop *l, const struct connection *c, uint32_t i) {
  if (l->run->gap_ns == 0) return c->batch_first_ns;
  return c->batch_first_ns + (uint64_t)(l->run->gap_ns * l->run->driver_count * i);
}

static void send_action(struct loop *l, struct connection *c, enum action action, uint64_t now) {
  const struct put_template *put = &l->run->put;
  bool starts_operation = c->step == 0 && !c->is_consumer;
  switch (action) {
    case ACTION_DELETE:
    case ACTION_BURY:
      for (uint32_t i = 0; i < c->held_count; i++) command_with_id(c, action, c->held[i], now);
      c->held_count = 0;
      return;
    case ACTION_KICK: command_kick(c, c->batch, now); return;
    default: break;
  }
  for (uint32_t i = 0; i < c->batch; i++) {
    uint64_t sent_ns = starts_operation ? intended_ns(l, c, i) : now;
    switch (action) {
      case ACTION_PUT: command_put(c, put, sent_ns); break;
      case ACTION_PUT_IN_TUBE:
      case ACTION_PUT_UNIQUE:
      case ACTION_PUT_REMEMBERED: command_put_named(c, put, action, sent_ns); break;
      case ACTION_PUT_DELAYED: command_put_delayed(c, put, sent_ns, next_random(l)); break;
      case ACTION_USE_AND_PUT: command_use_and_put(c, put, sent_ns, next_random(l)); break;
      default: command_plain(c, action, sent_ns); break;
    }
  }
}

static void send_step(struct loop *l, struct connection *c, uint64_t now) {
  // consumers and `drain`: they end between a delete and a reserve
  bool is_continuous = c->program->loop_from > 0;
  if (is_continuous && (c->saw_timed_out || is_over(l, now))) c->closing = true;
  const uint8_t *actions = c->program->steps[c->step];
  for (uint32_t i = 0; i < STEP_ACTIONS && actions[i] != ACTION_END; i++) {
    bool is_reserve = actions[i] == ACTION_RESERVE || actions[i] == ACTION_RESERVE_NOW;
    if (!(is_reserve && c->closing)) send_action(l, c, (enum action)actions[i], now);
  }
  if (c->pending_count == 0) {
    finish(l, c);
    return;
  }
  c->state = CONNECTION_BUSY;
  flush(l, c);
}

// How many operations may begin now; 0 if --jobs is used up.
static uint32_t claim(struct loop *l, uint32_t wanted) {
  uint64_t limit = l->run->options->jobs;
  if (limit == 0) return wanted;
  uint64_t before = atomic_fetch_add(&l->run->operations, wanted);
  if (before >= limit) return 0;
  return limit - before < wanted ? (uint32_t)(limit - before) : wanted;
}

static void start_operation(struct loop *l, struct connection *c, uint64_t now) {
  const struct options *o = l->run->options;
  c->state = CONNECTION_IDLE;
  uint32_t wanted = o->pipeline;
  if (is_over(l, now)) {
    finish(l, c);
    return;
  }
  if (l->run->gap_ns > 0) {
    if (c->operations_due == 0) return;
    if (c->operations_due < wanted) wanted = (uint32_t)c->operations_due;
  } else if (o->backlog > 0 && atomic_load_explicit(&l->run->backlog, memory_order_relaxed) > (int64_t)o->backlog) {
    l->waiting[(l->waiting_head + l->waiting_count++) % l->count] = (uint32_t)(c - l->connections);
    return;
  }
  c->batch = c->program->loop_from > 0 ? wanted : claim(l, wanted);
  if (c->batch == 0) {
    finish(l, c);
    return;
  }
  if (l->run->gap_ns > 0) {
    double turn = (double)(c->operations_begun * l->run->driver_count + c->driver);
    c->batch_first_ns = l->run->start_ns + (uint64_t)(turn * l->run->gap_ns);
    c->operations_due -= c->batch;
    c->operations_begun += c->batch;
  } else {
    c->batch_first_ns = now;
  }
  c->step = 0;
  send_step(l, c, now);
}

static bool is_measured(const struct loop *l, uint64_t now) {
  return now >= l->run->measure_from_ns && now < l->run->deadline_ns;
}

static void advance(struct loop *l, struct connection *c, uint64_t now) {
  if (c->closing) {
    finish(l, c);
    return;
  }
  c->step++;
  if (c->step < c->program->step_count) {
    send_step(l, c, now);
    return;
  }
  c->step = c->program->loop_from;
  if (c->step > 0) {
    send_step(l, c, now);
    return;
  }
  if (c->program->step_count > 1 && is_measured(l, now)) {
    for (uint32_t i = 0; i < c->batch; i++) histogram_record(&l->metrics[METRIC_CYCLE], now - intended_ns(l, c, i));
  }
  start_operation(l, c, now);
}

static void wrong(struct loop *l, const struct connection *c, enum action action, const struct reply *r, const char *why) {
  static const char *const words[ACTION_COUNT] = {"", "list-tube-used", "echo", "put", "put", "use", "reserve",
                                                  "reserve-with-timeout 0", "delete", "bury", "kick",
                                                  "put-in-tube", "put-in-tube", "put-in-tube"};
  if (atomic_fetch_add(&l->run->errors, 1) > 0) return; // the first one tells
  fprintf(stderr, "beanload: connection %u: %s answered \"%.*s\": %s\n", c->index, words[action], (int)r->line_bytes, r->line, why);
}

static void check_job(struct loop *l, const struct connection *c, enum action action, const struct reply *r, uint64_t now) {
  const struct put_template *put = &l->run->put;
  const struct options *o = l->run->options;
  if (c->held_count == o->pipeline) return wrong(l, c, action, r, "more jobs than reserves");
  if (action == ACTION_RESERVE_NOW) return; // `drain` takes whatever is there
  if (r->body_bytes != put->body_bytes) return wrong(l, c, action, r, "another body size was put");
  if (put->body_bytes < STAMP_BYTES) return;
  if (memcmp(r->body + STAMP_BYTES, put->body + STAMP_BYTES, put->body_bytes - STAMP_BYTES) != 0)
    return wrong(l, c, action, r, "another body was put");
  if (!c->is_consumer) return;
  uint64_t stamp = stamp_read(r->body);
  if (stamp < l->run->measure_from_ns) return; // of the warm-up or an earlier run
  if (now + EARLY_NS < stamp) return wrong(l, c, action, r, "the job came before its delay was over");
  if (is_measured(l, now)) histogram_record(&l->metrics[METRIC_DELIVERY], now > stamp ? now - stamp : 0);
}

struct tally {
  uint64_t inserted, reserved, deleted;
};

static void take_reply(struct loop *l, struct connection *c, const struct reply *r, struct tally *tally, uint64_t now) {
  struct pending p = c->pending[c->pending_head++ & c->pending_mask];
  c->pending_count--;
  enum action action = (enum action)p.action;
  bool is_empty = action == ACTION_RESERVE_NOW && r->kind == REPLY_TIMED_OUT;
  if (r->kind != reply_of[action] && !is_empty) return wrong(l, c, action, r, "another reply was expected");
  switch (action) {
    case ACTION_PUT: tally->inserted++; break;
    case ACTION_DELETE: tally->deleted++; break;
    case ACTION_KICK:
      if (r->number != p.argument) wrong(l, c, action, r, "all buried jobs were to be kicked");
      break;
    case ACTION_RESERVE:
    case ACTION_RESERVE_NOW:
      if (is_empty) {
        c->saw_timed_out = true;
        break;
      }
      check_job(l, c, action, r, now);
      if (c->held_count < l->run->options->pipeline) c->held[c->held_count++] = r->number;
      tally->reserved++;
      break;
    default: break;
  }
  if (!is_measured(l, now)) return;
  l->commands++;
  l->last_reply_ns = now;
  if (action == ACTION_USE_AND_PUT) return;
  uint64_t latency = now > p.sent_ns ? now - p.sent_ns : 0;
  histogram_record(&l->metrics[metric_of[action]], latency);
  if (!(c->is_consumer && action == ACTION_RESERVE)) histogram_record(&l->metrics[METRIC_COMMAND], latency);
}

static void take_replies(struct loop *l, struct connection *c, uint64_t now) {
  struct tally tally = {0};
  size_t wanted = 0;
  while (c->in.start < c->in.end) {
    struct reply r;
    size_t available = c->in.end - c->in.start;
    long taken = reply_parse(c->in.bytes + c->in.start, available, &r, &wanted);
    if (taken < 0) fail("connection %u: not a reply: \"%.60s\"", c->index, c->in.bytes + c->in.start);
    if (taken == 0) break;
    if (c->pending_count == 0) fail("connection %u: a reply that nothing asked for: \"%.*s\"", c->index, (int)r.line_bytes, r.line);
    take_reply(l, c, &r, &tally, now);
    c->in.start += (size_t)taken;
  }
  if (c->in.start == c->in.end) {
    c->in.start = c->in.end = 0;
  } else if (wanted > c->in.end - c->in.start) {
    buffer_room(&c->in, wanted - (c->in.end - c->in.start));
  }
  struct run *run = l->run;
  if (tally.inserted != tally.reserved) {
    atomic_fetch_add_explicit(&run->backlog, (int64_t)tally.inserted - (int64_t)tally.reserved, memory_order_relaxed);
  }
  if (tally.inserted) atomic_fetch_add_explicit(&run->inserted, tally.inserted, memory_order_relaxed);
  if (tally.reserved) atomic_fetch_add_explicit(&run->reserved, tally.reserved, memory_order_relaxed);
  if (tally.deleted) atomic_fetch_add_explicit(&run->deleted, tally.deleted, memory_order_relaxed);
}

static void on_readable(struct loop *l, struct connection *c) {
  char *room = buffer_room(&c->in, c->in.start == c->in.end ? READ_BYTES : 1);
  ssize_t n = recv(c->fd, room, c->in.capacity - c->in.end, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) fail("connection %u: %s", c->index, n == 0 ? "the server closed it" : strerror(errno));
  c->in.end += (size_t)n;
  uint64_t now = now_ns();
  l->last_activity_ns = now;
  take_replies(l, c, now);
  if (c->pending_count == 0 && c->state == CONNECTION_BUSY) advance(l, c, now);
}

// Hands out the operations that have fallen due; the time of the next one.
static uint64_t hand_out(struct loop *l, uint64_t now) {
  const struct run *run = l->run;
  for (;;) {
    struct connection *c = &l->connections[l->drivers[l->next_driver]];
    double turn = (double)(l->next_round * run->driver_count + c->driver);
    uint64_t due_ns = run->start_ns + (uint64_t)(turn * run->gap_ns);
    if (due_ns > now || due_ns >= run->deadline_ns) return due_ns;
    c->operations_due++;
    if (c->state == CONNECTION_IDLE) start_operation(l, c, now);
    if (++l->next_driver < l->driver_count) continue;
    l->next_driver = 0;
    l->next_round++;
  }
}

static void wake_producers(struct loop *l, uint64_t now) {
  for (uint32_t n = l->waiting_count; n > 0; n--) {
    if (atomic_load_explicit(&l->run->backlog, memory_order_relaxed) > (int64_t)l->run->options->backlog && !is_over(l, now)) return;
    uint32_t at = l->waiting[l->waiting_head++ % l->count];
    l->waiting_head %= l->count;
    l->waiting_count--;
    start_operation(l, &l->connections[at], now);
  }
}

static int wait_events(struct loop *l, struct epoll_event *events, int capacity, uint64_t until_ns, uint64_t now) {
  uint64_t ns = until_ns > now ? until_ns - now : 0;
#ifdef SYS_epoll_pwait2
  static atomic_bool is_missing; // before Linux 5.11
  if (!is_missing) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    long n = syscall(SYS_epoll_pwait2, l->epoll, events, capacity, &t, NULL, (size_t)8);
    if (n >= 0 || errno != ENOSYS) return (int)n;
    is_missing = true;
  }
#endif
  // spins for the last millisecond
  return epoll_wait(l->epoll, events, capacity, (int)(ns / 1000000));
}

static bool is_done(struct loop *l, uint64_t now) {
  if (atomic_load(&l->run->errors) > 0) return true;
  if (l->drivers_left > 0) {
    if (now < l->run->deadline_ns + PATIENCE_NS) return false;
    atomic_fetch_add(&l->run->errors, 1);
    fprintf(stderr, "beanload: %u connections had no reply for %" PRIu64 " s\n", l->drivers_left, PATIENCE_NS / 1000000000);
    return true;
  }
  // Producers are done: consumers may take what is left, but needn't.
  if (atomic_load(&l->run->drivers_left) > 0) return false;
  bool is_quiet = now > l->last_activity_ns + QUIET_NS;
  return !l->run->options->scenario->consumer || is_quiet || now > l->run->deadline_ns + PATIENCE_NS;
}

void loop_run(struct loop *l) {
  struct run *run = l->run;
  struct epoll_event events[256];
  uint64_t now = now_ns();
  l->last_activity_ns = now;
  for (uint32_t i = 0; i < l->count; i++) {
    struct connection *c = &l->connections[i];
    if (!c->is_consumer) continue;
    c->batch = run->options->pipeline;
    send_step(l, c, now);
  }
  for (uint32_t i = 0; i < l->driver_count && run->gap_ns == 0; i++) start_operation(l, &l->connections[l->drivers[i]], now);

  bool swept = false;
  for (;;) {
    now = now_ns();
    uint64_t until_ns = now + 10000000;
    if (run->gap_ns > 0 && l->driver_count > 0 && !is_over(l, now)) {
      uint64_t due_ns = hand_out(l, now);
      if (due_ns < until_ns) until_ns = due_ns;
    }
    if (l->waiting_count > 0) {
      wake_producers(l, now);
      if (now + 1000000 < until_ns) until_ns = now + 1000000;
    }
    if (!swept && is_over(l, now)) {
      swept = true;
      for (uint32_t i = 0; i < l->driver_count; i++) {
        struct connection *c = &l->connections[l->drivers[i]];
        if (c->state == CONNECTION_IDLE) finish(l, c);
      }
    }
    if (is_done(l, now)) return;
    if (now < run->deadline_ns && run->deadline_ns < until_ns) until_ns = run->deadline_ns;

    int n = wait_events(l, events, sizeof events / sizeof *events, until_ns, now);
    if (n < 0 && errno != EINTR) fail("epoll_wait: %s", strerror(errno));
    for (int i = 0; i < n; i++) {
      struct connection *c = events[i].data.ptr;
      if (events[i].events & EPOLLOUT) flush(l, c);
      if (events[i].events & ~(uint32_t)EPOLLOUT) on_readable(l, c);
    }
  }
}
