// Plays the test files of ROOM_FILES in one process, one after the other: the start of a process
// takes longer than most files of test/unit. Each is a suite named after its file, so its hooks
// hold for itself only.

import { after, before, describe } from "node:test";

const { ROOM_FILES = "", CPU_TIMES } = process.env;
delete process.env["ROOM_FILES"];
const cpu = CPU_TIMES === undefined ? undefined : await import("../machine/cpu-of-file.ts");

for (const path of ROOM_FILES.split("\n"))
  describe(path, async () => {
    const file = `${process.cwd()}/${path}`;
    let cpuBefore = 0;
    before(() => {
      // On its command line, for whoever looks which file it plays (end-hung-files.ts).
      process.title = file;
      cpuBefore = cpu?.cpuSeconds() ?? 0;
    });
    after(() => cpu?.noteCpu(path, cpu.cpuSeconds() - cpuBefore));
    await import(file);
  });
