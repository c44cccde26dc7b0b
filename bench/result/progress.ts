// Progress of the bench: a bar on a terminal, else one line per case.
import { SingleBar } from "cli-progress";

export interface Progress {
  begin(what: string): void;
  done(): void;
  stop(): void;
}

export function progress(total: number): Progress {
  if (!process.stderr.isTTY) return lines();
  const bar = new SingleBar({
    format: "{bar} {value}/{total}  {eta_formatted} left  {what}",
    hideCursor: true,
    clearOnComplete: true,
    stream: process.stderr,
  });
  bar.start(total, 0, { what: "" });
  return {
    begin: (what) => bar.update({ what }),
    done: () => bar.increment(),
    stop: () => bar.stop(),
  };
}

function lines(): Progress {
  let last = "";
  return {
    begin(what) {
      const name = what.split(":")[0]!;
      if (name !== last) console.error(name);
      last = name;
    },
    done() {},
    stop() {},
  };
}
