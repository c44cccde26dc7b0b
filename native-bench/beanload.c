// beanload: a load generator for servers that speak the beanstalkd protocol. See README.md.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "loop.h"
#include "report.h"
#include "scenario.h"

static void *zeroed(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) fail("out of memory");
  return p;
}

static void allow_connections(uint32_t count) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < count + 16) fail("%u connections need more file descriptors than %lu", count, (unsigned long)limit.rlim_cur);
}

// Connections are dealt to the threads in pairs, so that each has producers and consumers.
static uint32_t thread_of(const struct options *o, uint32_t index) { return index / 2 % o->threads; }

static void loop_open(struct loop *l, struct run *run, uint32_t thread, uint32_t total) {
  const struct options *o = run->options;
  l->run = run;
  l->random = (o->seed + 1) * UINT64_C(0x9e3779b97f4a7c15) + thread + 1;
  l->epoll = epoll_create1(EPOLL_CLOEXEC);
  if (l->epoll < 0) fail("epoll_create1: %s", strerror(errno));
  for (uint32_t i = 0; i < total; i++) l->count += thread_of(o, i) == thread;
  l->connections = zeroed(l->count, sizeof *l->connections);
  l->drivers = zeroed(l->count, sizeof *l->drivers);
  l->waiting = zeroed(l->count, sizeof *l->waiting);
  uint32_t n = 0;
  for (uint32_t i = 0; i < total; i++) {
    if (thread_of(o, i) != thread) continue;
    struct connection *c = &l->connections[n];
    connection_open(c, i, o);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
    if (!c->is_consumer) l->drivers[l->driver_count++] = n;
    n++;
  }
  l->drivers_left = l->driver_count;
}

static void *run_thread(void *argument) {
  struct loop *l = argument;
  prctl(PR_SET_TIMERSLACK, 1UL); // --rate wants timers to the microsecond
  pthread_barrier_wait(&l->run->ready);
  pthread_barrier_wait(&l->run->ready); // the clock is set between the two
  loop_run(l);
  return NULL;
}

static double cpu_seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  struct options o = options_parse(argc, argv);
  const struct scenario *s = o.scenario;
  uint32_t total = o.connections + (s->separate_watchers ? o.watchers : 0);
  allow_connections(total);

  static struct run run;
  run.options = &o;
  run.driver_count = s->consumer && !s->separate_watchers ? (o.connections + 1) / 2 : o.connections;
  run.drivers_left = run.driver_count;
  put_template_make(&run.put, &o);
  pthread_barrier_init(&run.ready, NULL, o.threads + 1);

  struct loop *loops = zeroed(o.threads, sizeof *loops);
  pthread_t *threads = zeroed(o.threads, sizeof *threads);
  for (uint32_t t = 0; t < o.threads; t++) {
    loop_open(&loops[t], &run, t, total);
    if (pthread_create(&threads[t], NULL, run_thread, &loops[t]) != 0) fail("cannot start a thread");
  }
  pthread_barrier_wait(&run.ready);
  double cpu_before = cpu_seconds();
  run.start_ns = now_ns();
  run.measure_from_ns = run.start_ns + (uint64_t)(o.warmup_seconds * 1e9);
  run.deadline_ns = run.measure_from_ns + (uint64_t)(o.seconds * 1e9);
  run.gap_ns = o.rate > 0 && s->producer.loop_from == 0 ? 1e9 * s->commands_per_operation / o.rate : 0;
  pthread_barrier_wait(&run.ready);

  // Whoever started this process reads the server's CPU time at these lines.
  if (o.marks) {
    double sleep_us = o.warmup_seconds * 1e6;
    for (; sleep_us > 0; sleep_us -= 500000) usleep(sleep_us < 500000 ? (useconds_t)sleep_us : 500000);
    fputs("mark begin\n", stderr);
  }

  static struct loop merged;
  for (uint32_t t = 0; t < o.threads; t++) {
    pthread_join(threads[t], NULL);
    merged.commands += loops[t].commands;
    if (loops[t].last_reply_ns > merged.last_reply_ns) merged.last_reply_ns = loops[t].last_reply_ns;
    for (int m = 0; m < METRIC_COUNT; m++) histogram_add(&merged.metrics[m], &loops[t].metrics[m]);
  }
  if (o.marks) fputs("mark end\n", stderr);
  // A run that ended by itself (--jobs, drain) took until its last reply.
  bool ended_itself = o.jobs > 0 || s->producer.loop_from > 0;
  double seconds = o.seconds;
  if (ended_itself && merged.commands > 0) seconds = (double)(merged.last_reply_ns - run.measure_from_ns) / 1e9;
  report_print(&run, &merged, seconds, cpu_seconds() - cpu_before);
  return run.errors > 0 ? 1 : 0;
}
