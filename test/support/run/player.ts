// Plays test files with Node's test runner, and collects what test/run.ts tells at its end.

import { relative } from "node:path";
import { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { type EventData, run } from "node:test";
import { spec } from "node:test/reporters";
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

export interface PlayerOptions {
  /** With a slash at its end. */
  readonly root: string;
  /** Time limit of each test, ms. */
  readonly testMs: number;
  readonly execArgv: readonly string[];
}

/** Each run tells its counts; all together are told at the end. */
const withoutCounts = (text: string): string =>
  text.replace(/^ℹ (?:tests|suites|pass|fail|cancelled|skipped|todo|duration_ms) .*\n/gm, "");

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
    stream.on("test:pass", (test) => tallyOf(test.file).pass(test));
    stream.on("test:fail", (test) => tallyOf(test.file).fail(test, { root, env }));
    stream.on("test:summary", ({ file, counts, duration_ms }) => {
      if (file === undefined) return;
      this.took.push({ file: relative(root, file), seconds: duration_ms / 1000 });
      unfinished.delete(file);
      const tally = tallyOf(file);
      if (tally.isEmpty || tally.heard !== counts.tests) this.#tellCounts(file, counts.tests, tally.heard);
    });
    await this.#print(stream, env);
    for (const tally of tallies.values()) this.total.add(tally);
    for (const file of unfinished) this.incomplete.push(`${file}: it did not come to its end`);
  }

  /** A file that brings the process down does not take others with it: they are played again. */
  async #playRoom({ files, env }: Piece): Promise<void> {
    const { root } = this.#options;
    const roomEnv = { ...env, ROOM_FILES: files.join("\n") };
    const stream = this.#run([`${root}${ROOM_ENTRY}`], 1, roomEnv);
    const unfinished = new Set(files);
    let heard = 0;
    let tally = new Tally();
    /** The suite of a file ends after all that is in it. */
    const endFile = (file: string, seconds: number): void => {
      unfinished.delete(file);
      heard += tally.heard;
      if (tally.isEmpty) this.#tellCounts(`${root}${file}`, 0, 0);
      this.total.add(tally);
      this.took.push({ file, seconds });
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
      if (file !== undefined && unfinished.size === 0 && heard !== counts.tests)
        this.#tellCounts(`${root}${files[0]} and others in its process`, counts.tests, heard);
    });
    await this.#print(stream, env);
    // Of the process itself: that it crashed, say.
    this.total.add(tally);
    const again = [...unfinished].filter((file) => !this.#ended.has(file));
    if (again.length > 0)
      this.incomplete.push(`${root}${again[0]}: the process ended before it; now in one of its own`);
    for (const file of again) await this.#playFiles({ files: [file], env, isRoom: false }, 1);
  }

  #run(files: readonly string[], concurrency: number, env: NodeJS.ProcessEnv): ReturnType<typeof run> {
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

  /** In one piece at the end, so it doesn't mix with the output of others. */
  async #print(stream: ReturnType<typeof run>, env: NodeJS.ProcessEnv): Promise<void> {
    const printed: Buffer[] = [];
    const out = new Writable({
      write: (chunk: Buffer, _encoding, done) => {
        printed.push(chunk);
        done();
      },
    });
    const told = stream.compose(new spec());
    told.pipe(out, { end: false });
    await finished(told, { writable: false });
    const { OUR_FLAGS } = env;
    if (OUR_FLAGS !== process.env["OUR_FLAGS"]) console.log(`\nOnce more with ${OUR_FLAGS}:`);
    process.stdout.write(withoutCounts(Buffer.concat(printed).toString()));
  }
}
