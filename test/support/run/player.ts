// Plays test files with Node's test runner, prints a line for each, and collects what test/run.ts
// prints at its end.

import { relative } from "node:path";
import { type EventData, run } from "node:test";
import { Tally } from "./tally.ts";

/** What plays the files of a room in one process, from the root. */
export const ROOM_ENTRY = "test/support/run/room.ts";

export interface Piece {
  /** From the root. */
  readonly files: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  /** All files in one process; otherwise each has its own. */
  readonly isRoom: boolean;
}

interface PlayerOptions {
  /** With a slash at its end. */
  readonly root: string;
  /** Time limit of each test, ms. */
  readonly testMs: number;
  readonly execArgv: readonly string[];
  /** What files say is printed also where all their tests pass. */
  readonly showsAll: boolean;
}

type TestStream = ReturnType<typeof run>;

/** Each run says its counts. */
const COUNT = /^(?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) [\d.]+$/;

export class Player {
  readonly #options: PlayerOptions;
  readonly total = new Tally();
  readonly took: { readonly file: string; readonly seconds: number }[] = [];
  /**
   * Files whose results are not all there: as bad as failures, which may be among what is missing.
   */
  readonly incomplete: string[] = [];
  /** Those that ran for too long. */
  readonly #ended = new Set<string>();

  constructor(options: PlayerOptions) {
    this.#options = options;
  }

  /** Notes that somebody ends a file that hangs, whose path is absolute. */
  noteEnd(file: string, what: string): void {
    console.error(what);
    this.incomplete.push(what);
    this.#ended.add(relative(this.#options.root, file));
  }

  async play(piece: Piece, concurrency = 1): Promise<void> {
    if (piece.files.length === 0) return;
    if (piece.isRoom) await this.#playRoom(piece);
    else await this.#playFiles(piece, concurrency);
  }

  async #playFiles({ files, env }: Piece, concurrency: number): Promise<void> {
    const { root } = this.#options;
    const paths = files.map((file) => `${root}${file}`);
    const stream = this.#run(paths, concurrency, env);
    /** Results heard of, by file: compared with what the file itself says at its end. */
    const tallies = new Map<string, Tally>();
    const tallyOf = (file = ""): Tally => {
      const tally = tallies.get(file) ?? new Tally();
      tallies.set(file, tally);
      return tally;
    };
    const unfinished = new Set(paths);
    const seconds = new Map<string, number>();
    stream.on("test:pass", (test) => tallyOf(test.file).pass(test));
    stream.on("test:fail", (test) => tallyOf(test.file).fail(test, { root, env }));
    stream.on("test:summary", ({ file, counts, duration_ms }) => {
      if (file === undefined) return;
      seconds.set(file, duration_ms / 1000);
      unfinished.delete(file);
      const tally = tallyOf(file);
      if (tally.isEmpty || tally.heard !== counts.tests) this.#tellCounts(file, counts.tests, tally.heard);
    });
    const said = await heard(stream);
    for (const file of unfinished) this.incomplete.push(`${file}: it did not come to its end`);
    for (const file of paths) {
      const isWhole = !unfinished.has(file);
      this.#tell(relative(root, file), { tally: tallyOf(file), seconds: seconds.get(file), isWhole, env });
    }
    this.#tellSaid(said, (file) => unfinished.has(file) || tallyOf(file).failures.length > 0);
  }

  /** A file that brings the process down does not take others with it: they are played again. */
  async #playRoom({ files, env }: Piece): Promise<void> {
    const { root } = this.#options;
    const roomEnv = { ...env, ROOM_FILES: files.join("\n") };
    const stream = this.#run([`${root}${ROOM_ENTRY}`], 1, roomEnv);
    const unfinished = new Set(files);
    let results = 0;
    let hasFailed = false;
    let tally = new Tally();
    /** The suite of a file ends after all that is in it. */
    const endFile = (file: string, seconds: number): void => {
      unfinished.delete(file);
      results += tally.heard;
      if (tally.isEmpty) this.#tellCounts(`${root}${file}`, 0, 0);
      this.#tell(file, { tally, seconds, isWhole: true, env });
      hasFailed ||= tally.failures.length > 0;
      tally = new Tally();
    };
    const isFile = ({ name, nesting }: EventData.TestPass | EventData.TestFail): boolean =>
      nesting === 0 && unfinished.has(name);
    stream.on("test:pass", (test) => {
      tally.pass(test);
      if (isFile(test)) endFile(test.name, test.details.duration_ms / 1000);
    });
    stream.on("test:fail", (test) => {
      const { error, duration_ms } = test.details;
      const wasCancelled = "failureType" in error && error.failureType === "cancelledByParent";
      if (wasCancelled && isFile(test)) tally = new Tally();
      else tally.fail(test, { root, env });
      if (!wasCancelled && isFile(test)) endFile(test.name, duration_ms / 1000);
    });
    stream.on("test:summary", ({ file, counts }) => {
      if (file !== undefined && unfinished.size === 0 && results !== counts.tests)
        this.#tellCounts(`${root}${files[0]} and others in its process`, counts.tests, results);
    });
    const said = await heard(stream);
    // Of the process itself: that it crashed, say.
    this.total.add(tally);
    hasFailed ||= tally.failures.length > 0 || unfinished.size > 0;
    this.#tellSaid(said, () => hasFailed);
    const again = [...unfinished].filter((file) => !this.#ended.has(file));
    if (again.length > 0)
      this.incomplete.push(`${root}${again[0]}: the process ended before it; now in one of its own`);
    for (const file of again) await this.#playFiles({ files: [file], env, isRoom: false }, 1);
  }

  #run(files: readonly string[], concurrency: number, env: NodeJS.ProcessEnv): TestStream {
    const { root, testMs, execArgv } = this.#options;
    return run({
      files,
      concurrency,
      cwd: root,
      env,
      execArgv,
      // For each test. Not --test-force-exit: it ends a file's process before all of its results
      // are told.
      timeout: testMs,
    });
  }

  #tellCounts(file: string, ran: number, heard: number): void {
    this.incomplete.push(`${file}: ${ran} tests were run, ${heard} results were heard`);
  }

  /** A line for a file, and the name of each failure; the errors are printed at the end. */
  #tell(file: string, { tally, seconds = 0, isWhole, env }: Played): void {
    this.total.add(tally);
    this.took.push({ file, seconds });
    const { passed, skipped, failures } = tally;
    const counts = [`${passed} passed`];
    if (failures.length > 0) counts.push(`${failures.length} failed`);
    if (skipped.length > 0) counts.push(`${skipped.length} skipped`);
    if (!isWhole) counts.push("incomplete");
    const { OUR_FLAGS } = env;
    const flags = OUR_FLAGS === process.env["OUR_FLAGS"] ? "" : ` with ${OUR_FLAGS}`;
    const mark = failures.length > 0 || !isWhole ? "✖" : "✔";
    console.log(`${mark} ${file}${flags}: ${counts.join(", ")}, ${seconds.toFixed(1)} s`);
    for (const what of failures) console.log(`  ✖ ${what.split("\n", 1)[0]}`);
  }

  #tellSaid(said: readonly Said[], hasFailed: (file: string) => boolean): void {
    for (const { file, text } of said)
      if (this.#options.showsAll || hasFailed(file)) process.stdout.write(text);
  }
}

interface Played {
  readonly tally: Tally;
  readonly seconds: number | undefined;
  /** It came to its end. */
  readonly isWhole: boolean;
  readonly env: NodeJS.ProcessEnv;
}

interface Said {
  readonly file: string;
  readonly text: string;
}

/**
 * Returns what the files have written when they have ended. Lines that begin with NOTE are told at
 * once, whether or not tests fail.
 */
async function heard(stream: TestStream): Promise<readonly Said[]> {
  const said: Said[] = [];
  for await (const { type, data } of stream) {
    if (type === "test:stdout" && data.message.startsWith("NOTE ")) process.stdout.write(data.message);
    else if (type === "test:stdout" || type === "test:stderr")
      said.push({ file: data.file, text: data.message });
    else if (type === "test:diagnostic" && !COUNT.test(data.message))
      said.push({ file: data.file ?? "", text: `ℹ ${data.message}\n` });
  }
  return said;
}
