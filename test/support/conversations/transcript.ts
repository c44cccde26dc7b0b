// Parser of transcripts: conversations with expected replies, as text (the format is in
// test/transcripts/README.md).

import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { type BytePattern, bytesOf, patternOf } from "../byte-pattern.ts";
import type { ServerKind } from "../server/server-process.ts";

export type ClientAct = "connect" | "half-close" | "close" | "reset";

export type Step = { readonly lineNumber: number; readonly only: ServerKind | undefined } & (
  | { readonly kind: "send"; readonly client: string; readonly bytes: Buffer }
  | {
      readonly kind: "expect-line";
      readonly client: string;
      readonly pattern: BytePattern;
      readonly terminator: "\r\n" | "\n";
    }
  | { readonly kind: "expect-bytes"; readonly client: string; readonly bytes: Buffer }
  | { readonly kind: "expect-nothing"; readonly client: string }
  | { readonly kind: "expect-end"; readonly client: string }
  | {
      readonly kind: "expect-fields";
      readonly client: string;
      readonly command: string;
      readonly fields: ReadonlyMap<string, BytePattern>;
      readonly repeated: boolean;
    }
  | { readonly kind: "act"; readonly client: string; readonly act: ClientAct }
  | { readonly kind: "wait"; readonly ms: number }
  | { readonly kind: "signal"; readonly signal: "SIGUSR1" }
);

export interface Transcript {
  /** File name without `.txt`. */
  readonly name: string;
  readonly path: string;
  readonly flags: readonly string[];
  /** The transcript applies to this server only. */
  readonly only: ServerKind | undefined;
  readonly steps: readonly Step[];
}

const FOLDER = fileURLToPath(new URL("../../transcripts/", import.meta.url));
const ACTS: readonly string[] = ["connect", "half-close", "close", "reset"] satisfies readonly ClientAct[];

/** All transcripts in test/transcripts, by name. TRANSCRIPT=part-of-a-name picks some. */
export function loadTranscripts(): Transcript[] {
  const { TRANSCRIPT: wanted = "" } = process.env;
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith(".txt") && file.includes(wanted))
    .sort()
    .map((file) => parseTranscript(`${FOLDER}${file}`, readFileSync(`${FOLDER}${file}`, "utf8")));
}

export function parseTranscript(path: string, text: string): Transcript {
  const steps: Step[] = [];
  let flags: string[] = [];
  let only: ServerKind | undefined;
  text.split("\n").forEach((line, index) => {
    const at = `${path}:${index + 1}`;
    if (line === "" || line.startsWith("#")) return;
    if (line.startsWith("flags: ")) {
      if (steps.length > 0) throw new Error(`${at}: flags belong before the first step`);
      flags = line.slice(7).split(" ");
    } else if (line.startsWith("only: ")) {
      only = serverKindOf(line.slice(6), at);
    } else {
      steps.push(parseStep(line, index + 1, at));
    }
  });
  if (steps.length === 0) throw new Error(`${path}: no steps`);
  return { name: basename(path, ".txt"), path, flags, only, steps };
}

function parseStep(wholeLine: string, lineNumber: number, at: string): Step {
  const tagged = /^\[([^\]]+)\] (.*)$/s.exec(wholeLine);
  const only = tagged === null ? undefined : serverKindOf(tagged[1] ?? "", at);
  const line = tagged === null ? wholeLine : (tagged[2] ?? "");
  const common = { lineNumber, only };

  const wait = /^wait (\d+(?:\.\d+)?)s$/.exec(line);
  if (wait !== null) return { ...common, kind: "wait", ms: Math.round(Number(wait[1]) * 1000) };
  if (line === "server: SIGUSR1") return { ...common, kind: "signal", signal: "SIGUSR1" };

  const match = /^([A-Z][A-Za-z0-9]*)(>>|>|<<|<\||<|\?~|\?|:)(?: (.*))?$/s.exec(line);
  if (match === null) throw new Error(`${at}: not a step: ${line}`);
  const client = match[1] ?? "";
  const text = match[3] ?? "";
  switch (match[2]) {
    case ">":
      return { ...common, kind: "send", client, bytes: bytesOf(`${text}\\r\\n`, at) };
    case ">>":
      return { ...common, kind: "send", client, bytes: bytesOf(text, at) };
    case "<<":
      return { ...common, kind: "expect-bytes", client, bytes: bytesOf(text, at) };
    case "<|":
      return { ...common, kind: "expect-line", client, pattern: patternOf(text, at), terminator: "\n" };
    case "<":
      if (text === "<nothing>") return { ...common, kind: "expect-nothing", client };
      if (text === "<EOF>") return { ...common, kind: "expect-end", client };
      return { ...common, kind: "expect-line", client, pattern: patternOf(text, at), terminator: "\r\n" };
    case ":":
      if (!ACTS.includes(text)) throw new Error(`${at}: a client can ${ACTS.join(", ")}, not ${text}`);
      return { ...common, kind: "act", client, act: text as ClientAct };
    default:
      return {
        ...common,
        kind: "expect-fields",
        client,
        ...parseFields(text, at),
        repeated: match[2] === "?~",
      };
  }
}

/** `stats-job 1 => state: ready, pri: 5` */
function parseFields(
  text: string,
  at: string,
): { command: string; fields: ReadonlyMap<string, BytePattern> } {
  const [command, list] = text.split(" => ");
  if (command === undefined || list === undefined)
    throw new Error(`${at}: expected "command => key: value, …"`);
  const fields = new Map<string, BytePattern>();
  for (const pair of list.split(", ")) {
    const colon = pair.indexOf(": ");
    if (colon < 0) throw new Error(`${at}: not "key: value": ${pair}`);
    fields.set(pair.slice(0, colon), patternOf(pair.slice(colon + 2), at));
  }
  return { command, fields };
}

function serverKindOf(text: string, at: string): ServerKind {
  if (text === "ours" || text === "beanstalkd-1.12") return text;
  throw new Error(`${at}: unknown server: ${text}`);
}
