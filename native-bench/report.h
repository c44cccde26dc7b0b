// The one line of JSON that a run ends with.
#ifndef REPORT_H
#define REPORT_H

#include "loop.h"

void report_print(const struct run *run, const struct loop *merged, double seconds, double cpu_seconds);

#endif
