// Switches costly assertions on for this process and its threads. A command imports this first,
// before any module of src reads the variable.

process.env["RUNNERBEAN_CHECKED"] ??= "1";
