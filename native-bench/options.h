// What the command line asks for.
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct scenario;

struct options {
  const char *host; // address, name, or the path of a unix socket
  const char *port;
  const struct scenario *scenario;
  uint32_t connections;
  uint32_t watchers; // `tubes` only: consumers on top of the connections
  uint32_t pipeline; // commands a connection sends before it waits for the replies
  uint32_t body_bytes;
  uint32_t tubes;
  const char *tube_prefix;
  uint32_t priority;
  uint32_t delay_seconds; // `delayed` only: each job's delay is 1..this
  uint32_t ttr_seconds;
  uint64_t jobs;    // 0: no limit, the clock ends the run
  // producers wait while more jobs than this are inserted and not yet reserved; 0: no limit
  uint64_t backlog;
  double seconds;
  double warmup_seconds;
  double rate; // commands/s of all connections together; 0: as fast as replies come
  uint32_t threads;
  uint32_t processes; // instead of threads; 0: none
  uint64_t seed;
  bool marks;
};

// Reads the command line; prints what is wrong and exits with 2 if it can't.
struct options options_parse(int argc, char **argv);

#endif
