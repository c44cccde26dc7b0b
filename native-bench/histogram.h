// A log-linear histogram of nanoseconds: 128 buckets to each power of two, so a value is off by
// less than 0.8 %.
#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

#define HISTOGRAM_SUB_BITS 7
#define HISTOGRAM_TOP_BIT 41 // 2^42 ns, over an hour: anything longer counts in the last bucket
#define HISTOGRAM_BUCKETS (256 + (HISTOGRAM_TOP_BIT - 7) * 128)

struct histogram {
  uint64_t total;
  uint64_t max_ns; // exact
  uint64_t counts[HISTOGRAM_BUCKETS];
};

void histogram_record(struct histogram *h, uint64_t value_ns);
void histogram_add(struct histogram *into, const struct histogram *from);

// The highest value that the bucket holding this percentile (0..100) stands for, never above the
// maximum.
uint64_t histogram_percentile_ns(const struct histogram *h, double percentile);

// Bounds of a bucket: [low, low + width).
uint64_t histogram_low_ns(uint32_t bucket);
uint64_t histogram_width_ns(uint32_t bucket);

// {"count":..,"p50":..,..,"buckets":[[lowNs,count],..]}; percentiles and max in microseconds.
void histogram_print_json(const struct histogram *h, FILE *out);

#endif
