// Recording, merging and reading of the log-linear latency histogram.
#include "histogram.h"

#include <inttypes.h>
#include <stdbool.h>

// Values below 256 have a bucket each. From there on a value keeps its top 8 bits: the highest one
// selects the power of two, the 7 after it the bucket within.
static uint32_t bucket_of(uint64_t value_ns) {
  if (value_ns < 256) return (uint32_t)value_ns;
  uint32_t top = 63 - (uint32_t)__builtin_clzll(value_ns);
  if (top > HISTOGRAM_TOP_BIT) return HISTOGRAM_BUCKETS - 1;
  uint32_t sub = (uint32_t)(value_ns >> (top - HISTOGRAM_SUB_BITS)) & 127;
  return 256 + (top - 8) * 128 + sub;
}

uint64_t histogram_low_ns(uint32_t bucket) {
  if (bucket < 256) return bucket;
  uint32_t octave = (bucket - 256) / 128;
  uint64_t sub = (bucket - 256) % 128;
  return (128 + sub) << (octave + 1);
}

uint64_t histogram_width_ns(uint32_t bucket) {
  return bucket < 256 ? 1 : UINT64_C(1) << ((bucket - 256) / 128 + 1);
}

void histogram_record(struct histogram *h, uint64_t value_ns) {
  h->counts[bucket_of(value_ns)]++;
  h->total++;
  if (value_ns > h->max_ns) h->max_ns = value_ns;
}

void histogram_add(struct histogram *into, const struct histogram *from) {
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) into->counts[i] += from->counts[i];
  into->total += from->total;
  if (from->max_ns > into->max_ns) into->max_ns = from->max_ns;
}

uint64_t histogram_percentile_ns(const struct histogram *h, double percentile) {
  if (h->total == 0) return 0;
  double exact = (double)h->total * percentile / 100.0;
  uint64_t wanted = (uint64_t)exact;
  if ((double)wanted < exact) wanted++;
  if (wanted == 0) wanted = 1;
  uint64_t seen = 0;
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += h->counts[i];
    if (seen < wanted) continue;
    uint64_t high = histogram_low_ns(i) + histogram_width_ns(i) - 1;
    return high < h->max_ns ? high : h->max_ns;
  }
  return h->max_ns;
}

void histogram_print_json(const struct histogram *h, FILE *out) {
  static const struct {
    const char *name;
    double percentile;
  } columns[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p999", 99.9}};

  fprintf(out, "{\"count\":%" PRIu64, h->total);
  for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
    fprintf(out, ",\"%s\":%.1f", columns[i].name, (double)histogram_percentile_ns(h, columns[i].percentile) / 1e3);
  }
  fprintf(out, ",\"max\":%.1f,\"buckets\":[", (double)h->max_ns / 1e3);
  bool first = true;
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
    if (h->counts[i] == 0) continue;
    fprintf(out, "%s[%" PRIu64 ",%" PRIu64 "]", first ? "" : ",", histogram_low_ns(i), h->counts[i]);
    first = false;
  }
  fputs("]}", out);
}
