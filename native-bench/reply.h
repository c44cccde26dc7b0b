// One reply of the server, parsed out of the bytes read so far.
#ifndef REPLY_H
#define REPLY_H

#include <stddef.h>
#include <stdint.h>

enum reply_kind {
  REPLY_OTHER, // anything that no scenario hopes for: an error
  REPLY_USING,
  REPLY_INSERTED,
  REPLY_RESERVED,
  REPLY_DELETED,
  REPLY_BURIED,
  REPLY_KICKED,
  REPLY_TIMED_OUT,
  REPLY_ECHO
};

struct reply {
  enum reply_kind kind;
  uint64_t number;   // job id, or how many were kicked
  const char *line;  // without CR LF
  size_t line_bytes;
  const char *body; // of RESERVED, inside the input buffer
  size_t body_bytes;
};

#define REPLY_LINE_LIMIT 512

// How many bytes the reply takes; 0 if it isn't complete (then *wanted is how many it needs at
// least); -1 if it is no reply at all.
long reply_parse(const char *bytes, size_t available, struct reply *reply, size_t *wanted);

#endif
