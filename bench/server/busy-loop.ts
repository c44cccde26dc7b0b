// Occupies a core until its parent process is gone. Prints a line when it begins.
const TURN_MS = 50;

const starter = process.ppid;
process.stdout.write("turning\n");
while (process.ppid === starter) {
  for (const endMs = performance.now() + TURN_MS; performance.now() < endMs; );
}
