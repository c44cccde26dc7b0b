// The parser of replies.
#include "reply.h"

#include <stdbool.h>
#include <string.h>

// Reads digits up to a blank or the end; false if there are none or something else follows.
static bool number(const char **at, const char *end, uint64_t *value) {
  const char *p = *at;
  uint64_t n = 0;
  while (p < end && *p >= '0' && *p <= '9') n = n * 10 + (uint64_t)(*p++ - '0');
  if (p == *at || p - *at > 20 || (p < end && *p != ' ')) return false;
  *at = p;
  *value = n;
  return true;
}

static bool starts(const struct reply *r, const char *word, size_t bytes) {
  return r->line_bytes >= bytes && memcmp(r->line, word, bytes) == 0;
}

#define STARTS(r, word) starts(r, word, sizeof(word) - 1)
#define IS(r, word) ((r)->line_bytes == sizeof(word) - 1 && STARTS(r, word))

static void parse_numbered(struct reply *r, const char *at, enum reply_kind kind) {
  const char *end = r->line + r->line_bytes;
  if (number(&at, end, &r->number) && at == end) r->kind = kind;
}

static void parse_reserved(struct reply *r) {
  const char *end = r->line + r->line_bytes;
  const char *at = r->line + 9;
  uint64_t bytes;
  if (!number(&at, end, &r->number) || at == end) return;
  at++;
  if (!number(&at, end, &bytes) || at != end || bytes > (UINT64_C(1) << 31)) return;
  r->body_bytes = (size_t)bytes;
  r->kind = REPLY_RESERVED;
}

long reply_parse(const char *bytes, size_t available, struct reply *r, size_t *wanted) {
  size_t searchable = available < REPLY_LINE_LIMIT ? available : REPLY_LINE_LIMIT;
  const char *cr = memchr(bytes, '\r', searchable);
  *wanted = available + 1;
  if (!cr) return available >= REPLY_LINE_LIMIT ? -1 : 0;
  size_t line_bytes = (size_t)(cr - bytes);
  if (available < line_bytes + 2) return 0;
  if (cr[1] != '\n') return -1;

  *r = (struct reply){.kind = REPLY_OTHER, .line = bytes, .line_bytes = line_bytes};
  size_t total = line_bytes + 2;
  switch (bytes[0]) {
    case 'I':
      if (STARTS(r, "INSERTED ")) parse_numbered(r, bytes + 9, REPLY_INSERTED);
      break;
    case 'R':
      if (STARTS(r, "RESERVED ")) parse_reserved(r);
      if (r->kind != REPLY_RESERVED) break;
      total += r->body_bytes + 2;
      *wanted = total;
      if (available < total) return 0;
      r->body = bytes + line_bytes + 2;
      if (memcmp(r->body + r->body_bytes, "\r\n", 2) != 0) return -1;
      break;
    case 'D':
      if (IS(r, "DELETED")) r->kind = REPLY_DELETED;
      break;
    case 'U':
      if (STARTS(r, "USING ")) r->kind = REPLY_USING;
      break;
    case 'B':
      if (IS(r, "BURIED")) r->kind = REPLY_BURIED;
      break;
    case 'K':
      if (STARTS(r, "KICKED ")) parse_numbered(r, bytes + 7, REPLY_KICKED);
      break;
    case 'T':
      if (IS(r, "TIMED_OUT")) r->kind = REPLY_TIMED_OUT;
      break;
    case 'l':
      if (IS(r, "list-tube-used")) r->kind = REPLY_ECHO;
      break;
    default: break;
  }
  return (long)total;
}
