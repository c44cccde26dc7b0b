// Scenarios as data: what each role of connection sends, step by step.
#ifndef SCENARIO_H
#define SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

enum action {
  ACTION_END, // ends a step
  ACTION_LIST_TUBE_USED,
  ACTION_ECHO, // a line that comes back as it is; only `echo` answers so
  ACTION_PUT,
  ACTION_PUT_DELAYED,
  ACTION_USE_AND_PUT, // into a random tube
  ACTION_RESERVE,     // waits for a job
  ACTION_RESERVE_NOW, // reserve-with-timeout 0: TIMED_OUT ends the connection's part
  ACTION_DELETE,
  ACTION_BURY,
  ACTION_KICK, // one command for the whole batch
  ACTION_PUT_IN_TUBE,    // into the connection's tube, by its name
  ACTION_PUT_UNIQUE,     // the same with a key that nobody else has
  ACTION_PUT_REMEMBERED, // the same with a key that is remembered for an hour
  ACTION_COUNT
};

#define STEP_ACTIONS 3
#define PROGRAM_STEPS 7

// A connection sends all of a step's actions (each `pipeline` times) in one write, and goes to the
// next step when every reply has come. After the last step it goes on with `loop_from`.
struct program {
  uint8_t steps[PROGRAM_STEPS][STEP_ACTIONS];
  uint8_t step_count;
  uint8_t loop_from;
};

enum tube_layout {
  TUBES_SPREAD, // connection i uses and watches tube i % tubes
  TUBES_OWN,    // a tube for each connection
  TUBES_ALL     // producers use any tube, consumers watch all of them
};

struct scenario {
  const char *name;
  const char *about;
  struct program producer;
  const struct program *consumer; // null: all connections are producers
  // consumers come on top of --connections instead of being half of them
  bool separate_watchers;
  uint8_t commands_per_operation; // over all roles; turns --rate into operations
  enum tube_layout layout;
  bool limits_backlog; // producers wait when consumers fall behind (--backlog)
};

extern const struct scenario scenarios[];
extern const uint32_t scenario_count;

const struct scenario *scenario_named(const char *name); // null: unknown

#endif
