// Opening conversation of a run: a connection uses and watches its tubes.
import type { Scenario } from "./programs.ts";
import type { Workload } from "./workload.ts";

const CHUNK = 200; // commands sent at once; few enough for any socket buffer

interface TubeSelection {
  readonly isDone: boolean;
  begin(send: (text: string) => void, resolve: () => void, reject: (error: Error) => void): void;
  receive(text: string): void;
}

/** What tubes are chosen for. */
interface Selecting {
  readonly scenario: Scenario;
  readonly workload: Workload;
}

export function selectTubes(run: Selecting, index: number, isConsumer: boolean): TubeSelection {
  const commands = commandsFor(run, index, isConsumer);
  let sent = 0;
  let answered = 0;
  let rest = "";
  let send: (text: string) => void = () => {};
  let settle: { resolve: () => void; reject: (error: Error) => void };

  const proceed = () => {
    if (answered === commands.length) settle.resolve();
    if (answered < sent || sent === commands.length) return;
    const chunk = commands.slice(sent, sent + CHUNK);
    sent += chunk.length;
    send(chunk.join(""));
  };
  return {
    get isDone() {
      return answered === commands.length;
    },
    begin(write, resolve, reject) {
      send = write;
      settle = { resolve, reject };
      proceed();
    },
    receive(text) {
      const lines = (rest + text).split("\r\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (!/^(USING|WATCHING) /.test(line)) {
          return settle.reject(
            new Error(`connection ${index}: wrong reply while selecting tubes: "${line}"`),
          );
        }
      }
      answered += lines.length;
      proceed();
    },
  };
}

function commandsFor({ scenario, workload }: Selecting, index: number, isConsumer: boolean): string[] {
  if (scenario.layout === "all") {
    if (!isConsumer) return [];
    const watches = Array.from({ length: workload.tubes }, (_, tube) => `watch bench-${tube}\r\n`);
    return [...watches, "ignore default\r\n"];
  }
  const tube = tubeOf({ scenario, workload }, index);
  return [`use ${tube}\r\n`, `watch ${tube}\r\n`, "ignore default\r\n"];
}

/**
 * The tube of a connection, where it has one. A producer and the consumer after it share a tube.
 */
export function tubeOf({ scenario, workload }: Selecting, index: number): string {
  const group = scenario.consumer ? Math.floor(index / 2) : index;
  return `bench-${scenario.layout === "own" ? index : group % workload.tubes}`;
}
