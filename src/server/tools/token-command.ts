// `runnerbean token`: adds, lists and removes lines of the token file. A secret is printed once and
// stored nowhere.

import { statSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { Command, InvalidArgumentError, Option } from "commander";
import { ROLES } from "../../access/identity.ts";
import { drawSecret, hashOf, proofOfPassword } from "../../access/secrets.ts";
import {
  NO_TOKENS,
  type Proof,
  parseTokenFile,
  TOKEN_NAME,
  type Token,
  tokenLine,
} from "../../access/token-file.ts";
import { print, tell } from "../../cli/output.ts";
import { idsOf } from "../lifecycle/process.ts";
import { readTokens, readTokenText, writeTokenText } from "../listeners/access-rules.ts";
import { ExitCode, OperatorError } from "../options/operator-error.ts";
import { serviceUnit } from "./service-unit.ts";

interface AddOptions {
  readonly tokenFile: string;
  readonly role: string;
  readonly tubes?: string;
  readonly expires?: string;
  readonly password?: true;
  readonly certificate?: true;
}

const PASSWORD_LENGTH_MIN = 12;
const ROLE_NAMES = Object.keys(ROLES).join(", ");

export function tokenCommand(): Command {
  const token = new Command("token").description("manage the token file: who may do what");
  const withFile = (command: Command): Command =>
    command.addOption(
      new Option("--token-file <file>", "the file").env("RUNNERBEAN_TOKEN_FILE").makeOptionMandatory(),
    );
  withFile(token.command("add"))
    .argument(
      "<name>",
      "name of the client or person",
      word(TOKEN_NAME, "a name of letters, digits and . _ @ : / -"),
    )
    .description("add a token and print its secret, which is shown only once")
    .requiredOption("--role <roles>", `separated by commas: ${ROLE_NAMES}`, roles)
    .option(
      "--tubes <globs>",
      "only these tubes, such as mail-*,sms",
      word(/^\S+$/, "globs such as mail-*,sms"),
    )
    .option(
      "--expires <day>",
      "the last day on which it is valid",
      word(/^\d{4}-\d\d-\d\d$/, "a day such as 2027-01-31"),
    )
    .option("--password", "read a secret that you have chosen from stdin")
    .option("--certificate", "add no secret, but a client certificate with this name")
    .action((name: string, options: AddOptions) => run(() => add(name, options)));
  withFile(token.command("list"))
    .description("list names, roles, tubes and expiry dates")
    .option("--json", "print one JSON object per line")
    .action(({ tokenFile, json }: AddOptions & { json?: true }) => run(() => list(tokenFile, json === true)));
  withFile(token.command("remove <name>"))
    .description("remove a token")
    .action((name: string, { tokenFile }: AddOptions) => run(() => remove(name, tokenFile)));
  return token;
}

/**
 * Returns a parser of values that become one word in the token file. A line break would let a value
 * add another token.
 */
const word =
  (pattern: RegExp, allowed: string) =>
  (text: string): string => {
    if (pattern.test(text) && !/\s/.test(text)) return text;
    throw new InvalidArgumentError(`Allowed: ${allowed}.`);
  };

function roles(text: string): string {
  if (text.split(",").every((role) => Object.hasOwn(ROLES, role))) return text;
  throw new InvalidArgumentError(`Allowed: ${ROLE_NAMES}, separated by commas.`);
}

async function add(name: string, options: AddOptions): Promise<void> {
  const path = options.tokenFile;
  const { secret, proof } = await newProof(options);
  // Read only now: other commands may change the file while a password is typed.
  const lines = readTokenText(path).split("\n");
  const text = lines.filter((line) => line.trim() !== NO_TOKENS).join("\n");
  const words = [name, options.role, proofWord(proof)];
  if (options.tubes !== undefined) words.push(`tubes=${options.tubes}`);
  if (options.expires !== undefined) words.push(`expires=${options.expires}`);
  const begin = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  const next = `${begin}${words.join(" ")}\n`;
  const { faults } = parseTokenFile(next);
  if (faults.length > 0) {
    const lines = faults.map(({ line, message }) => `${path}:${line}: ${message}`);
    throw new OperatorError(lines.join("\n"), ExitCode.Usage);
  }
  const owner = statSync(path, { throwIfNoEntry: false }) === undefined ? serviceUser() : undefined;
  writeTokenText(path, next, owner);
  if (owner !== undefined) tell(`${path} belongs to ${owner.name}, the user of the service`);
  if (secret !== undefined) print(secret);
  tell(`added ${name} to ${path}; kill -HUP makes a running server accept it`);
}

/** Returns the user of the service if root may give files away, and the service has a user. */
function serviceUser(): { name: string; user: number; group: number } | undefined {
  const name = process.getuid!() === 0 ? serviceUnit()?.user : undefined;
  const ids = name === undefined ? undefined : idsOf(name);
  return name === undefined || ids === undefined ? undefined : { name, ...ids };
}

async function newProof(options: AddOptions): Promise<{ secret?: string; proof: Proof }> {
  if (options.certificate === true) return { proof: { kind: "certificate" } };
  if (options.password === true) return { proof: await proofOfPassword(await readPassword()) };
  const secret = drawSecret();
  return { secret, proof: { kind: "sha256", hash: hashOf(secret) } };
}

async function readPassword(): Promise<string> {
  const input = createInterface({ input: process.stdin, output: process.stderr, terminal: false });
  if (process.stdin.isTTY) process.stderr.write("password (it shows): ");
  for await (const line of input) {
    if (line.length >= PASSWORD_LENGTH_MIN) return line;
    break;
  }
  throw new OperatorError(
    `a password has at least ${PASSWORD_LENGTH_MIN} characters, on a line of stdin`,
    ExitCode.Usage,
  );
}

function proofWord(proof: Proof): string {
  const token: Token = { ...NOBODY, proof };
  return tokenLine(token).split(" ")[2]!;
}

const NOBODY = {
  name: "x",
  roles: ["monitor"],
  permissions: 0,
  tubes: undefined,
  expiresAtMs: Number.POSITIVE_INFINITY,
};

function list(path: string, json: boolean): void {
  const tokens = readTokens(path);
  if (!json) print("name\troles\tproof\ttubes\texpires");
  for (const token of tokens) {
    const [name, given, proof, ...rest] = tokenLine(token).split(" ");
    const partOf = (key: string): string | undefined =>
      rest.find((each) => each.startsWith(key))?.slice(key.length);
    const [kind, tubes, expires] = [proof!.split(":")[0], partOf("tubes="), partOf("expires=")];
    const over = token.expiresAtMs <= Date.now();
    if (json) print(JSON.stringify({ name, roles: given, proof: kind, tubes, expires, over }));
    else print([name, given, kind, tubes ?? "-", `${expires ?? "-"}${over ? " (over)" : ""}`].join("\t"));
  }
}

function remove(name: string, path: string): void {
  const lines = readTokenText(path).split("\n");
  // Empty lines and comments have no name.
  const canBeToken = name !== "" && !name.startsWith("#");
  const rest = lines.filter((line) => !canBeToken || line.trim().split(/\s+/)[0] !== name);
  if (rest.length === lines.length) throw new OperatorError(`there is no token named ${name}`, 1);
  const isLast = rest.every((line) => line.trim() === "" || line.trim().startsWith("#"));
  if (isLast && !rest.some((line) => line.trim() === NO_TOKENS)) rest.unshift(NO_TOKENS);
  writeTokenText(path, rest.join("\n"));
  tell(`removed ${name} from ${path}; kill -HUP makes a running server forget it`);
}

async function run(action: () => void | Promise<void>): Promise<void> {
  try {
    await action();
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    tell(`runnerbean token: ${error.message}`);
    process.exitCode = error.exitCode;
  }
}
