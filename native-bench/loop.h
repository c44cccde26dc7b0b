// The event loop of one generator thread.
#ifndef LOOP_H
#define LOOP_H

#include <pthread.h>
#include <stdatomic.h>

#include "command.h"
#include "connection.h"
#include "histogram.h"
#include "options.h"

enum metric {
  METRIC_COMMAND, // every command but reserves that wait for work, and `use`
  METRIC_LIST,
  METRIC_PUT,
  METRIC_RESERVE,
  METRIC_DELETE,
  METRIC_BURY,
  METRIC_KICK,
  METRIC_DELIVERY, // from the put (or the time its delay ends) to RESERVED at a consumer
  METRIC_CYCLE,    // a whole operation of several steps, from its intended start
  METRIC_COUNT
};
extern const char *const metric_names[METRIC_COUNT];

// What the threads share.
struct run {
  const struct options *options;
  struct put_template put;
  uint32_t driver_count;
  uint64_t start_ns, measure_from_ns, deadline_ns;
  double gap_ns; // between two operations of --rate
  pthread_barrier_t ready;
  atomic_uint_fast64_t operations; // claimed, for --jobs
  atomic_int_fast64_t backlog;     // inserted and not yet reserved
  atomic_uint drivers_left;
  atomic_uint_fast64_t inserted, reserved, deleted; // over the whole run, warm-up and end included
  atomic_uint errors;
};

struct loop {
  struct run *run;
  int epoll;
  struct connection *connections;
  uint32_t count;
  uint32_t *drivers; // indexes into connections, by driver number
  uint32_t driver_count, drivers_left;
  uint32_t *waiting; // ring of producers that wait for the backlog to shrink
  uint32_t waiting_head, waiting_count;
  uint64_t next_round; // of --rate: which operation of driver `next_driver` falls due next
  uint32_t next_driver;
  uint64_t random;
  uint64_t last_reply_ns; // inside the measured part
  uint64_t last_activity_ns;
  uint64_t commands;
  struct histogram metrics[METRIC_COUNT];
};

uint64_t now_ns(void);

// Runs the thread's connections to the end of the run.
void loop_run(struct loop *l);

#endif
