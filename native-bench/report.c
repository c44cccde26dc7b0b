// Prints parameters, totals, percentiles and raw histograms as JSON.
#include "report.h"

#include <inttypes.h>
#include <stdio.h>

#include "scenario.h"

// Tube prefixes are the only free text, and come from the command line.
static void print_text(const char *text) {
  putchar('"');
  for (const char *p = text; *p; p++) {
    if (*p == '"' || *p == '\\') putchar('\\');
    if ((unsigned char)*p >= ' ') putchar(*p);
  }
  putchar('"');
}

void report_print(const struct run *run, const struct loop *merged, double seconds, double cpu_seconds) {
  const struct options *o = run->options;
  printf("{\"generator\":\"native\",\"scenario\":\"%s\",\"connections\":%u,\"watchers\":%u,\"pipeline\":%u", o->scenario->name,
         o->connections, o->scenario->separate_watchers ? o->watchers : 0, o->pipeline);
  printf(",\"bodyBytes\":%u,\"tubes\":%u,\"tube\":", o->body_bytes, o->tubes);
  print_text(o->tube_prefix);
  printf(",\"rate\":%.0f,\"jobs\":%" PRIu64 ",\"backlog\":%" PRIu64 ",\"delaySeconds\":%u", o->rate, o->jobs, o->backlog,
         o->delay_seconds);
  printf(",\"threads\":%u,\"warmupSeconds\":%g", o->threads, o->warmup_seconds);
  printf(",\"commands\":%" PRIu64 ",\"seconds\":%.6f,\"commandsPerSecond\":%.1f", merged->commands, seconds,
         seconds > 0 ? (double)merged->commands / seconds : 0);

  const struct histogram *all = &merged->metrics[METRIC_COMMAND];
  printf(",\"p50\":%.1f,\"p90\":%.1f,\"p99\":%.1f,\"p999\":%.1f,\"max\":%.1f", (double)histogram_percentile_ns(all, 50) / 1e3,
         (double)histogram_percentile_ns(all, 90) / 1e3, (double)histogram_percentile_ns(all, 99) / 1e3,
         (double)histogram_percentile_ns(all, 99.9) / 1e3, (double)all->max_ns / 1e3);
  printf(",\"errors\":%u,\"inserted\":%" PRIu64 ",\"reserved\":%" PRIu64 ",\"deleted\":%" PRIu64, (unsigned)run->errors,
         (uint64_t)run->inserted, (uint64_t)run->reserved, (uint64_t)run->deleted);
  printf(",\"generatorCpuSeconds\":%.3f,\"bucketSubBits\":%d,\"metrics\":{", cpu_seconds, HISTOGRAM_SUB_BITS);
  bool first = true;
  for (int m = 0; m < METRIC_COUNT; m++) {
    if (merged->metrics[m].total == 0) continue;
    printf("%s\"%s\":", first ? "" : ",", metric_names[m]);
    histogram_print_json(&merged->metrics[m], stdout);
    first = false;
  }
  puts("}}");
}
