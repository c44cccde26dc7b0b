// The table of scenarios.
#include "scenario.h"

#include <stddef.h>
#include <string.h>

#define STEPS(n) .step_count = (n), .loop_from = 0

// The deletes of one batch leave together with the reserves of the next.
static const struct program consumer = {
    .steps = {{ACTION_RESERVE}, {ACTION_DELETE, ACTION_RESERVE}}, .step_count = 2, .loop_from = 1};

const struct scenario scenarios[] = {
    {.name = "list-tube-used",
     .about = "the cheapest command: what a round trip costs",
     .producer = {.steps = {{ACTION_LIST_TUBE_USED}}, STEPS(1)},
     .commands_per_operation = 1},
    {.name = "put",
     .about = "puts only; the jobs stay on the server",
     .producer = {.steps = {{ACTION_PUT}}, STEPS(1)},
     .commands_per_operation = 1},
    {.name = "put-reserve-delete",
     .about = "each connection: its puts, then as many reserves, then the deletes",
     .producer = {.steps = {{ACTION_PUT}, {ACTION_RESERVE}, {ACTION_DELETE}}, STEPS(3)},
     .commands_per_operation = 3},
    {.name = "producers-consumers",
     .about = "half of the connections put, the other half reserve and delete",
     .producer = {.steps = {{ACTION_PUT}}, STEPS(1)},
     .consumer = &consumer,
     .commands_per_operation = 3},
    {.name = "tubes",
     .about = "--connections put into a random one of --tubes, --watchers reserve from all of them",
     .producer = {.steps = {{ACTION_USE_AND_PUT}}, STEPS(1)},
     .consumer = &consumer,
     .separate_watchers = true,
     .commands_per_operation = 4,
     .layout = TUBES_ALL},
    {.name = "delayed",
     .about = "half of the connections put with a delay of 1..--delay s, the other half take what falls due",
     .producer = {.steps = {{ACTION_PUT_DELAYED}}, STEPS(1)},
     .consumer = &consumer,
     .commands_per_operation = 3},
    {.name = "buried-kicked",
     .about = "each connection in a tube of its own: put, reserve, bury, kick, reserve, delete",
     .producer = {.steps = {{ACTION_PUT}, {ACTION_RESERVE}, {ACTION_BURY}, {ACTION_KICK}, {ACTION_RESERVE}, {ACTION_DELETE}},
                  STEPS(6)},
     .commands_per_operation = 6,
     .layout = TUBES_OWN},
    {.name = "drain",
     .about = "reserve and delete until the tubes are empty",
     .producer = {.steps = {{ACTION_RESERVE_NOW}, {ACTION_DELETE, ACTION_RESERVE_NOW}}, .step_count = 2, .loop_from = 1},
     .commands_per_operation = 2},
    {.name = "echo",
     .about = "a line and itself back, for build/echo: the machine's limit",
     .producer = {.steps = {{ACTION_ECHO}}, STEPS(1)},
     .commands_per_operation = 1},
};
const uint32_t scenario_count = sizeof scenarios / sizeof *scenarios;

const struct scenario *scenario_named(const char *name) {
  for (uint32_t i = 0; i < scenario_count; i++) {
    if (strcmp(scenarios[i].name, name) == 0) return &scenarios[i];
  }
  return NULL;
}
