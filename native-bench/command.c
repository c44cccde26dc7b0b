// The commands, formatted without printf where it counts.
#include "command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_template_make(struct put_template *t, const struct options *o) {
  *t = (struct put_template){.body_bytes = o->body_bytes,
                             .priority = o->priority,
                             .ttr_seconds = o->ttr_seconds,
                             .delay_seconds = o->delay_seconds,
                             .tubes = o->tubes,
                             .tube_prefix = o->tube_prefix};
  t->header_bytes =
      (size_t)snprintf(t->header, sizeof t->header, "put %u 0 %u %u\r\n", o->priority, o->ttr_seconds, o->body_bytes);
  t->body = malloc(t->body_bytes + 2);
  if (!t->body) fail("out of memory for a body of %zu bytes", t->body_bytes);
  for (size_t i = 0; i < t->body_bytes; i++) t->body[i] = "abcdefghijklmnopqrstuvwxyz012345"[i % 32];
  memcpy(t->body + t->body_bytes, "\r\n", 2);
}

static void stamp_write(char *body, uint64_t ns) {
  for (int i = STAMP_BYTES - 1; i >= 0; i--, ns >>= 4) body[i] = "0123456789abcdef"[ns & 15];
}

uint64_t stamp_read(const char *body) {
  uint64_t ns = 0;
  for (int i = 0; i < STAMP_BYTES; i++) {
    char d = body[i];
    uint64_t digit = d >= '0' && d <= '9' ? (uint64_t)(d - '0') : d >= 'a' && d <= 'f' ? (uint64_t)(d - 'a' + 10) : 16;
    if (digit == 16) return 0;
    ns = ns << 4 | digit;
  }
  return ns;
}

static void await(struct connection *c, enum action action, uint32_t argument, uint64_t sent_ns) {
  struct pending *p = &c->pending[(c->pending_head + c->pending_count++) & c->pending_mask];
  *p = (struct pending){.sent_ns = sent_ns, .argument = argument, .action = (uint8_t)action};
}

static void append(struct connection *c, const char *bytes, size_t count) {
  memcpy(buffer_room(&c->out, count), bytes, count);
  c->out.end += count;
}

static void append_body(struct connection *c, const struct put_template *t, uint64_t stamp_ns) {
  append(c, t->body, t->body_bytes + 2);
  if (t->body_bytes >= STAMP_BYTES) stamp_write(c->out.bytes + c->out.end - t->body_bytes - 2, stamp_ns);
}

void command_put(struct connection *c, const struct put_template *t, uint64_t sent_ns) {
  append(c, t->header, t->header_bytes);
  append_body(c, t, sent_ns);
  await(c, ACTION_PUT, 0, sent_ns);
}

// 12 letters and digits: three of the connection, nine that count.
static void append_key(struct connection *c) {
  uint64_t number = (uint64_t)c->index << 45 | (c->next_key++ & ((UINT64_C(1) << 45) - 1));
  char key[12];
  for (int i = sizeof key - 1; i >= 0; i--, number >>= 5) key[i] = "abcdefghijklmnopqrstuvwxyz012345"[number & 31];
  append(c, key, sizeof key);
}

void command_put_named(struct connection *c, const struct put_template *t, enum action action, uint64_t sent_ns) {
  char line[256];
  int bytes = snprintf(line, sizeof line, "put-in-tube %s-%u %u 0 %u %zu", t->tube_prefix, c->tube, t->priority, t->ttr_seconds,
                       t->body_bytes);
  append(c, line, (size_t)bytes);
  if (action != ACTION_PUT_IN_TUBE) {
    append(c, " unique=", 8);
    append_key(c);
  }
  if (action == ACTION_PUT_REMEMBERED) append(c, " unique-for=3600", 16);
  append(c, "\r\n", 2);
  append_body(c, t, sent_ns);
  await(c, ACTION_PUT, 0, sent_ns);
}

void command_put_delayed(struct connection *c, const struct put_template *t, uint64_t sent_ns, uint64_t random) {
  uint32_t delay = 1 + (uint32_t)(random % t->delay_seconds);
  char header[64];
  int bytes = snprintf(header, sizeof header, "put %u %u %u %zu\r\n", t->priority, delay, t->ttr_seconds, t->body_bytes);
  append(c, header, (size_t)bytes);
  append_body(c, t, sent_ns + delay * UINT64_C(1000000000));
  await(c, ACTION_PUT, 0, sent_ns);
}

void command_use_and_put(struct connection *c, const struct put_template *t, uint64_t sent_ns, uint64_t random) {
  uint32_t tube = (uint32_t)(random % t->tubes);
  char line[256];
  int bytes = snprintf(line, sizeof line, "use %s-%u\r\n", t->tube_prefix, tube);
  append(c, line, (size_t)bytes);
  await(c, ACTION_USE_AND_PUT, tube, sent_ns);
  command_put(c, t, sent_ns);
}

void command_with_id(struct connection *c, enum action action, uint64_t id, uint64_t sent_ns) {
  char digits[20];
  size_t first = sizeof digits;
  do digits[--first] = (char)('0' + id % 10);
  while ((id /= 10) > 0);
  if (action == ACTION_DELETE) {
    append(c, "delete ", 7);
  } else {
    append(c, "bury ", 5);
  }
  append(c, digits + first, sizeof digits - first);
  if (action == ACTION_DELETE) {
    append(c, "\r\n", 2);
  } else {
    append(c, " 0\r\n", 4);
  }
  await(c, action, 0, sent_ns);
}

void command_plain(struct connection *c, enum action action, uint64_t sent_ns) {
  switch (action) {
    case ACTION_RESERVE: append(c, "reserve\r\n", 9); break;
    case ACTION_RESERVE_NOW: append(c, "reserve-with-timeout 0\r\n", 24); break;
    default: append(c, "list-tube-used\r\n", 16); break;
  }
  await(c, action, 0, sent_ns);
}

void command_kick(struct connection *c, uint32_t bound, uint64_t sent_ns) {
  char line[32];
  append(c, line, (size_t)snprintf(line, sizeof line, "kick %u\r\n", bound));
  await(c, ACTION_KICK, bound, sent_ns);
}
