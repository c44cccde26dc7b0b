// Writes commands into a connection's output and notes the replies they will have.
#ifndef COMMAND_H
#define COMMAND_H

#include "connection.h"

// What puts share, made once before the threads start.
struct put_template {
  char header[64]; // put <pri> 0 <ttr> <bytes>
  size_t header_bytes;
  char *body; // body and CR LF
  size_t body_bytes; // without CR LF
  uint32_t priority, ttr_seconds, delay_seconds, tubes;
  const char *tube_prefix;
};

// a body of at least this size begins with the time it is for, in hexadecimal
#define STAMP_BYTES 16

void put_template_make(struct put_template *t, const struct options *o);

// `sent_ns` goes into the pending reply and, as a stamp, into the body.
void command_put(struct connection *c, const struct put_template *t, uint64_t sent_ns);
// put-in-tube
void command_put_named(struct connection *c, const struct put_template *t, enum action action, uint64_t sent_ns);
void command_put_delayed(struct connection *c, const struct put_template *t, uint64_t sent_ns, uint64_t random);
void command_use_and_put(struct connection *c, const struct put_template *t, uint64_t sent_ns, uint64_t random);
// delete, bury
void command_with_id(struct connection *c, enum action action, uint64_t id, uint64_t sent_ns);
// no argument
void command_plain(struct connection *c, enum action action, uint64_t sent_ns);
void command_kick(struct connection *c, uint32_t bound, uint64_t sent_ns);

// The stamp of a body; 0 if it is none.
uint64_t stamp_read(const char *body);

#endif
