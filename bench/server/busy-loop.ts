// Takes a core for itself until whoever started it is gone. Says a line when it begins.
const TURN_MS = 50;

const starter = process.ppid;
process.stdout.write("turning\n");
while (process.ppid === starter) {
  for (const endMs = performance.now() + TURN_MS; performance.now() < endMs; );
}
