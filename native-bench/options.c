// The command line of beanload.
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static void usage(FILE *out) {
  fputs(
      "Usage: beanload --scenario NAME [options]\n"
      "\n"
      "  --host ADDRESS     address, name or path of a unix socket (127.0.0.1)\n"
      "  --port PORT        (11300)\n"
      "  --scenario NAME    see below (put-reserve-delete)\n"
      "  --connections N    (50)\n"
      "  --watchers N       of `tubes`: consumers on top of the connections (300)\n"
      "  --pipeline N       commands that a connection sends before it waits for the replies (1)\n"
      "  --body BYTES       size of a job's body (64)\n"
      "  --tubes N          number of tubes; connection i takes number i % N (1)\n"
      "  --tube NAME        tubes are called NAME-0, NAME-1 ... (bench)\n"
      "  --seconds S        length of the measured part (5)\n"
      "  --warmup S         not measured, before it (0)\n"
      "  --rate N           commands/s of all connections together; latency then counts from the time at which\n"
      "                     a command should have been sent (as fast as replies come)\n"
      "  --jobs N           stop after N operations, even if time is left (no limit)\n"
      "  --backlog N        of producers-consumers and tubes: producers wait while more jobs than this are ready; 0: never\n"
      "                     (4 x connections x pipeline, at least 1000)\n"
      "  --priority N       of a put (0)\n"
      "  --delay S          of `delayed`: delays are 1..S seconds (1)\n"
      "  --ttr S            (120)\n"
      "  --threads N        threads of the generator (1)\n"
      "  --processes N      instead of threads: processes that share the connections, as independent clients do\n"
      "  --seed N           of random tubes and delays (1)\n"
      "  --marks            a line on stderr where the measured part begins and one where it ends\n"
      "\n"
      "Prints one line of JSON. Exits with 1 if a reply was wrong, 2 if the options are.\n"
      "\n"
      "Scenarios:\n",
      out);
  for (uint32_t i = 0; i < scenario_count; i++) fprintf(out, "  %-20s %s\n", scenarios[i].name, scenarios[i].about);
}

static _Noreturn void refuse(const char *option, const char *value, const char *expected) {
  fprintf(stderr, "beanload: --%s %s: expected %s\n", option, value, expected);
  exit(2);
}

static uint64_t whole(const char *option, const char *value, uint64_t min, uint64_t max) {
  char *end;
  errno = 0;
  unsigned long long n = strtoull(value, &end, 10);
  if (errno || *value < '0' || *value > '9' || *end || n < min || n > max) {
    char expected[80];
    snprintf(expected, sizeof expected, "a whole number from %llu to %llu", (unsigned long long)min, (unsigned long long)max);
    refuse(option, value, expected);
  }
  return n;
}

static double positive(const char *option, const char *value) {
  char *end;
  double n = strtod(value, &end);
  if (end == value || *end || !(n >= 0) || n > 1e9) refuse(option, value, "a number, 0 or more");
  return n;
}

struct options options_parse(int argc, char **argv) {
  struct options o = {
      .host = "127.0.0.1",
      .port = "11300",
      .scenario = scenario_named("put-reserve-delete"),
      .connections = 50,
      .watchers = 300,
      .pipeline = 1,
      .body_bytes = 64,
      .tubes = 1,
      .tube_prefix = "bench",
      .delay_seconds = 1,
      .ttr_seconds = 120,
      .backlog = UINT64_MAX, // set below
      .seconds = 5,
      .threads = 1,
      .seed = 1,
  };
  static const struct option names[] = {
      {"host", 1, 0, 'h'},     {"port", 1, 0, 'p'},    {"scenario", 1, 0, 's'}, {"connections", 1, 0, 'c'},
      {"watchers", 1, 0, 'w'}, {"pipeline", 1, 0, 'P'}, {"body", 1, 0, 'b'},     {"tubes", 1, 0, 't'},
      {"tube", 1, 0, 'u'},     {"seconds", 1, 0, 'S'}, {"warmup", 1, 0, 'W'},   {"rate", 1, 0, 'r'},
      {"jobs", 1, 0, 'j'},     {"backlog", 1, 0, 'B'}, {"delay", 1, 0, 'd'},    {"ttr", 1, 0, 'T'},
      {"threads", 1, 0, 'n'},  {"seed", 1, 0, 'e'},    {"priority", 1, 0, 'i'}, {"marks", 0, 0, 'm'},
      {"processes", 1, 0, 'C'}, {"help", 0, 0, '?'},
      {0, 0, 0, 0},
  };
  int index = 0;
  for (int c; (c = getopt_long(argc, argv, "", names, &index)) != -1;) {
    const char *name = names[index].name;
    switch (c) {
      case 'h': o.host = optarg; break;
      case 'p': o.port = optarg; break;
      case 's':
        o.scenario = scenario_named(optarg);
        if (!o.scenario) refuse(name, optarg, "one of the scenarios that --help lists");
        break;
      case 'c': o.connections = (uint32_t)whole(name, optarg, 1, 100000); break;
      case 'w': o.watchers = (uint32_t)whole(name, optarg, 1, 100000); break;
      case 'P': o.pipeline = (uint32_t)whole(name, optarg, 1, 65536); break;
      case 'b': o.body_bytes = (uint32_t)whole(name, optarg, 0, 1u << 30); break;
      case 't': o.tubes = (uint32_t)whole(name, optarg, 1, 1000000); break;
      case 'u':
        if (strlen(optarg) > 180) refuse(name, optarg, "at most 180 characters");
        o.tube_prefix = optarg;
        break;
      case 'S': o.seconds = positive(name, optarg); break;
      case 'W': o.warmup_seconds = positive(name, optarg); break;
      case 'r': o.rate = positive(name, optarg); break;
      case 'j': o.jobs = whole(name, optarg, 1, UINT64_MAX / 2); break;
      case 'B': o.backlog = whole(name, optarg, 0, UINT64_MAX / 2); break;
      case 'd': o.delay_seconds = (uint32_t)whole(name, optarg, 1, 1u << 30); break;
      case 'T': o.ttr_seconds = (uint32_t)whole(name, optarg, 1, UINT32_MAX); break;
      case 'n': o.threads = (uint32_t)whole(name, optarg, 1, 256); break;
      case 'C': o.processes = (uint32_t)whole(name, optarg, 1, 1000); break;
      case 'e': o.seed = whole(name, optarg, 0, UINT64_MAX); break;
      case 'i': o.priority = (uint32_t)whole(name, optarg, 0, UINT32_MAX); break;
      case 'm': o.marks = true; break;
      default:
        if (optopt == 0 && c == '?' && optind > 1 && strcmp(argv[optind - 1], "--help") == 0) {
          usage(stdout);
          exit(0);
        }
        fputs("beanload: see --help\n", stderr);
        exit(2);
    }
  }
  if (optind < argc) refuse("?", argv[optind], "no arguments besides the options");
  if (o.scenario->consumer && !o.scenario->separate_watchers && o.connections < 2) {
    fprintf(stderr, "beanload: %s needs at least 2 connections\n", o.scenario->name);
    exit(2);
  }
  if ((double)o.pipeline * o.body_bytes * o.connections > 4e9) {
    fputs("beanload: pipeline x body x connections is over 4 GB: take fewer\n", stderr);
    exit(2);
  }
  if (o.threads > o.connections) o.threads = o.connections;
  if (o.processes > o.connections) o.processes = o.connections;
  if (o.backlog == UINT64_MAX) {
    o.backlog = 4 * (uint64_t)o.connections * o.pipeline;
    if (o.backlog < 1000) o.backlog = 1000;
  }
  if (!o.scenario->limits_backlog) o.backlog = 0;
  return o;
}
