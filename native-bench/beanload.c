// beanload: a load generator for servers that speak the beanstalkd protocol. See README.md.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loop.h"
#include "report.h"
#include "scenario.h"

static void *zeroed(size_t count, size_t size) {
  void *p = calloc(count ? count : 1, size);
  if (!p) fail("out of memory");
  return p;
}

// Zeroed, and the same memory in all processes that are forked later.
static void *shared(size_t count, size_t size) {
  void *p = mmap(NULL, count * size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) fail("out of memory");
  return p;
}

static void allow_connections(uint32_t count) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < count + 16) fail("%u connections need more file descriptors than %lu", count, (unsigned long)limit.rlim_cur);
}

// Connections are dealt to the threads in pairs, so that each has producers and consumers; to
// processes one by one.
static uint32_t thread_of(const struct options *o, uint32_t index) {
  return o->processes > 0 ? index % o->processes : index / 2 % o->threads;
}

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

// A process that fails before all are ready would be waited for in vain.
static void on_child_end(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  // The others end by PR_SET_PDEATHSIG.
  if (info->si_code != CLD_EXITED || info->si_status != 0) _exit(1);
}

static void start_process(struct loop *l, struct run *run, uint32_t index, uint32_t total) {
  pid_t pid = fork();
  if (pid < 0) fail("cannot start a process: %s", strerror(errno));
  if (pid > 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  loop_open(l, run, index, total);
  run_thread(l);
  _exit(0);
}

static void join_processes(void) {
  for (int status; wait(&status) > 0;) {
    if (status != 0) exit(1); // it has said why
  }
}

static double cpu_seconds(int who) {
  struct rusage u;
  getrusage(who, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv) {
  struct options o = options_parse(argc, argv);
  const struct scenario *s = o.scenario;
  uint32_t total = o.connections + (s->separate_watchers ? o.watchers : 0);
  allow_connections(total);

  struct run *run = shared(1, sizeof *run);
  run->options = &o;
  run->driver_count = s->consumer && !s->separate_watchers ? (o.connections + 1) / 2 : o.connections;
  run->drivers_left = run->driver_count;
  put_template_make(&run->put, &o);
  uint32_t loop_count = o.processes > 0 ? o.processes : o.threads;
  pthread_barrierattr_t across;
  pthread_barrierattr_init(&across);
  pthread_barrierattr_setpshared(&across, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&run->ready, &across, loop_count + 1);

  struct loop *loops = shared(loop_count, sizeof *loops);
  pthread_t *threads = zeroed(loop_count, sizeof *threads);
  struct sigaction child_end = {.sa_sigaction = on_child_end, .sa_flags = SA_SIGINFO | SA_RESTART};
  if (o.processes > 0) sigaction(SIGCHLD, &child_end, NULL);
  for (uint32_t t = 0; t < loop_count; t++) {
    if (o.processes > 0) {
      start_process(&loops[t], run, t, total);
      continue;
    }
    loop_open(&loops[t], run, t, total);
    if (pthread_create(&threads[t], NULL, run_thread, &loops[t]) != 0) fail("cannot start a thread");
  }
  pthread_barrier_wait(&run->ready);
  double cpu_before = cpu_seconds(RUSAGE_SELF);
  run->start_ns = now_ns();
  run->measure_from_ns = run->start_ns + (uint64_t)(o.warmup_seconds * 1e9);
  run->deadline_ns = run->measure_from_ns + (uint64_t)(o.seconds * 1e9);
  run->gap_ns = o.rate > 0 && s->producer.loop_from == 0 ? 1e9 * s->commands_per_operation / o.rate : 0;
  pthread_barrier_wait(&run->ready);

  // Whoever started this process reads the server's CPU time at these lines.
  if (o.marks) {
    double sleep_us = o.warmup_seconds * 1e6;
    for (; sleep_us > 0; sleep_us -= 500000) usleep(sleep_us < 500000 ? (useconds_t)sleep_us : 500000);
    fputs("mark begin\n", stderr);
  }

  static struct loop merged;
  if (o.processes > 0) join_processes();
  for (uint32_t t = 0; t < loop_count; t++) {
    if (o.processes == 0) pthread_join(threads[t], NULL);
    merged.commands += loops[t].commands;
    if (loops[t].last_reply_ns > merged.last_reply_ns) merged.last_reply_ns = loops[t].last_reply_ns;
    for (int m = 0; m < METRIC_COUNT; m++) histogram_add(&merged.metrics[m], &loops[t].metrics[m]);
  }
  if (o.marks) fputs("mark end\n", stderr);
  // A run that ended by itself (--jobs, drain) took until its last reply.
  bool ended_itself = o.jobs > 0 || s->producer.loop_from > 0;
  double seconds = o.seconds;
  if (ended_itself && merged.commands > 0) seconds = (double)(merged.last_reply_ns - run->measure_from_ns) / 1e9;
  double cpu = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN) - cpu_before;
  report_print(run, &merged, seconds, cpu);
  return run->errors > 0 ? 1 : 0;
}
