// One client connection: its socket, its buffers, the replies it waits for and where it is in its
// program.
#ifndef CONNECTION_H
#define CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options.h"
#include "scenario.h"

struct pending {
  uint64_t sent_ns; // when it was sent, or should have been (--rate)
  uint32_t argument; // of a kick: how many; of a use: the tube
  uint8_t action;    // enum action; a USE_AND_PUT waits for USING first, then for INSERTED as a PUT
};

struct buffer {
  char *bytes;
  size_t start, end, capacity;
};

enum connection_state {
  CONNECTION_IDLE,    // a producer between two operations
  CONNECTION_BUSY,    // waits for replies
  CONNECTION_FINISHED // won't send again
};

struct connection {
  int fd;
  uint32_t index;
  uint32_t driver; // number among the producers
  bool is_consumer;
  bool wants_writable; // registered for EPOLLOUT
  bool waits_for_backlog;
  bool saw_timed_out;
  bool closing; // sends no reserves any more
  enum connection_state state;

  uint32_t tube;     // that it uses
  // of its unique jobs: begins with the microsecond in which it was opened, so no run has one of
  // another
  uint64_t next_key;

  const struct program *program;
  uint32_t step;
  uint32_t batch;           // operations under way
  uint64_t operations_begun; // number of the next one, for --rate
  uint64_t operations_due;
  uint64_t batch_first_ns; // intended time of the batch's first operation

  uint64_t *held; // ids of reserved jobs, at most `pipeline`
  uint32_t held_count;

  struct pending *pending; // ring
  uint32_t pending_head, pending_count, pending_mask;

  struct buffer in, out;
};

// Connects, selects the tubes, and makes the socket non-blocking. Ends the process with a message
// if it can't.
void connection_open(struct connection *c, uint32_t index, const struct options *o);

char *buffer_room(struct buffer *b, size_t bytes); // at least that many free bytes at the end

// Writes what it can; true if all is out. Ends the process with a message on an error.
bool connection_flush(struct connection *c);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
