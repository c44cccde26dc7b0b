// The table of scenarios: those that both generators have, and one more.
#include "scenario.h"

#include <stddef.h>
#include <string.h>

const struct scenario scenarios[] = {
#include "scenario-table.h"
    // Of this generator alone.
    {.name = "echo",
     .about = "a line and itself back, for build/echo: the machine's limit",
     .producer = {.steps = {{ACTION_ECHO}}, .step_count = 1},
     .commands_per_operation = 1},
};
const uint32_t scenario_count = sizeof scenarios / sizeof *scenarios;

const struct scenario *scenario_named(const char *name) {
  for (uint32_t i = 0; i < scenario_count; i++) {
    if (strcmp(scenarios[i].name, name) == 0) return &scenarios[i];
  }
  return NULL;
}
