// Compares the histogram's percentiles with those of the sorted values themselves.
#include "histogram.h"

#include <inttypes.h>
#include <stdlib.h>

#define COUNT 100000

static int ascending(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a;
  uint64_t y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static int check(const char *what, uint64_t got, uint64_t expected) {
  double off = ((double)got - (double)expected) / (double)(expected ? expected : 1);
  if (off >= 0 && off < 0.008) return 0;
  fprintf(stderr, "histogram-test: %s: got %" PRIu64 ", expected %" PRIu64 "\n", what, got, expected);
  return 1;
}

int main(void) {
  static struct histogram h, half, merged;
  static uint64_t values[COUNT];
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < COUNT; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    values[i] = (state >> 23) >> (state % 40); // spread over all powers of two
    histogram_record(i % 2 ? &h : &half, values[i]);
  }
  histogram_add(&merged, &h);
  histogram_add(&merged, &half);
  qsort(values, COUNT, sizeof *values, ascending);

  int failures = 0;
  static const double percentiles[] = {0.1, 10, 50, 90, 99, 99.9, 99.99, 100};
  for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
    uint64_t rank = (uint64_t)(percentiles[i] / 100 * COUNT + 0.5);
    char what[32];
    snprintf(what, sizeof what, "p%g", percentiles[i]);
    failures += check(what, histogram_percentile_ns(&merged, percentiles[i]), values[rank - 1]);
  }
  for (uint32_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
    if (histogram_low_ns(i) + histogram_width_ns(i) == histogram_low_ns(i + 1)) continue;
    fprintf(stderr, "histogram-test: buckets %u and %u don't touch\n", i, i + 1);
    failures++;
  }
  if (merged.total != COUNT || merged.max_ns != values[COUNT - 1]) failures++;
  puts(failures ? "histogram-test: failed" : "histogram-test: ok");
  return failures ? 1 : 0;
}
