// The token file: one line per token, with the hash of its secret and never the secret itself.
//
//   # name  role[,role]  sha256:<hex> | scrypt:<N>:<r>:<p>:<salt>:<hash> | certificate
//     [tubes=mail-*,sms] [expires=2027-01-31]
//
// A file without tokens has the line "# no tokens": other comments may be the rest of a file that
// was cut.

import { type Identity, ROLES } from "./identity.ts";

/** How a client proves that it holds a token. */
export type Proof =
  /** A random secret of 256 bits: a plain hash is enough. */
  | { readonly kind: "sha256"; readonly hash: string }
  /** A secret that a person chose. */
  | { readonly kind: "scrypt"; readonly cost: ScryptCost; readonly salt: string; readonly hash: string }
  /** A client certificate whose common name or URI equals the token's name. */
  | { readonly kind: "certificate" };

export interface ScryptCost {
  readonly N: number;
  readonly r: number;
  readonly p: number;
}

export interface Token extends Identity {
  readonly proof: Proof;
}

interface TokenFault {
  readonly line: number;
  readonly message: string;
}

interface TokenFile {
  readonly tokens: readonly Token[];
  readonly faults: readonly TokenFault[];
}

export const TOKEN_NAME = /^[A-Za-z0-9][A-Za-z0-9._@:/-]{0,127}$/;
const DATE = /^\d{4}-\d\d-\d\d$/;
const DAY_MS = 86_400_000;
/**
 * Bounds of scrypt's cost: high enough to make guessing expensive, low enough not to overload the
 * server.
 */
const SCRYPT_N_MIN = 2 ** 14;
const SCRYPT_N_MAX = 2 ** 17;

/** The line of a file that revokes all tokens. */
export const NO_TOKENS = "# no tokens";

class LineFault extends Error {}

/** Parses a whole file. If it has any fault, the caller must use none of its tokens. */
export function parseTokenFile(text: string): TokenFile {
  const tokens: Token[] = [];
  const faults: TokenFault[] = [];
  const lineOfName = new Map<string, number>();
  const lines = text.split("\n");
  lines.forEach((line, index) => {
    const words = line.trim().split(/\s+/);
    if (words[0] === "" || words[0]!.startsWith("#")) return;
    try {
      const token = parseLine(words);
      const before = lineOfName.get(token.name);
      if (before !== undefined)
        throw new LineFault(`the name ${token.name} is already used in line ${before}`);
      lineOfName.set(token.name, index + 1);
      tokens.push(token);
    } catch (error) {
      if (!(error instanceof LineFault)) throw error;
      faults.push({ line: index + 1, message: error.message });
    }
  });
  const hasNone = tokens.length === 0 && faults.length === 0;
  if (hasNone && !lines.some((line) => line.trim() === NO_TOKENS))
    faults.push({ line: 1, message: `no line has a token; to revoke all of them, write "${NO_TOKENS}"` });
  return { tokens, faults };
}

function parseLine([name = "", roleList = "", proof = "", ...rest]: readonly string[]): Token {
  if (!TOKEN_NAME.test(name))
    throw new LineFault(`${name} is not a valid name: letters, digits, and . _ @ : / -`);
  const roles = roleList.split(",");
  let permissions = 0;
  for (const role of roles) {
    // Every object inherits "constructor", which is not a role.
    const bits = Object.hasOwn(ROLES, role) ? ROLES[role] : undefined;
    if (bits === undefined)
      throw new LineFault(`${role || "nothing"} is not a role: ${Object.keys(ROLES).join(", ")}`);
    permissions |= bits;
  }
  const token = { name, roles, permissions, proof: parseProof(proof), ...parseRest(rest) };
  if (token.tubes !== undefined && roles.includes("admin"))
    throw new LineFault("admin can't be limited to tubes");
  return token;
}

function parseProof(text: string): Proof {
  if (text === "certificate") return { kind: "certificate" };
  const [kind, ...parts] = text.split(":");
  if (kind === "sha256" && parts.length === 1 && /^[\da-f]{64}$/.test(parts[0]!))
    return { kind, hash: parts[0]! };
  if (kind === "scrypt" && parts.length === 5) {
    const [N = 0, r = 0, p = 0] = parts.slice(0, 3).map(Number);
    const isPower = Number.isInteger(Math.log2(N)) && N >= SCRYPT_N_MIN && N <= SCRYPT_N_MAX;
    if (isPower && r === 8 && p === 1 && parts[3] !== "" && /^[\w-]{43}$/.test(parts[4]!))
      return { kind, cost: { N, r, p }, salt: parts[3]!, hash: parts[4]! };
  }
  // The word may be a secret written here by mistake, so the message doesn't repeat it.
  throw new LineFault(
    "the third word is not a hash: make the line with `runnerbean token add`, or write sha256:<64 hex digits> or certificate",
  );
}

function parseRest(words: readonly string[]): Pick<Token, "tubes" | "expiresAtMs"> {
  let tubes: readonly string[] | undefined;
  let expiresAtMs = Number.POSITIVE_INFINITY;
  for (const word of words) {
    const [, key, value = ""] = /^(tubes|expires)=(.+)$/.exec(word) ?? [];
    if (key === "tubes") tubes = value.split(",").filter((glob) => glob !== "");
    else if (key === "expires") expiresAtMs = endOfDay(value);
    else throw new LineFault(`${word} is neither tubes=… nor expires=YYYY-MM-DD`);
  }
  return { tubes, expiresAtMs };
}

/** Returns the end of the day, UTC. */
function endOfDay(text: string): number {
  const ms = DATE.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN;
  // Date.parse turns February 31 into a day in March.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 10) !== text)
    throw new LineFault(`${text} is not a date: write it as in expires=2027-01-31`);
  return ms + DAY_MS;
}

export function tokenLine(token: Token): string {
  const words = [token.name, token.roles.join(","), proofText(token.proof)];
  if (token.tubes !== undefined) words.push(`tubes=${token.tubes.join(",")}`);
  if (token.expiresAtMs !== Number.POSITIVE_INFINITY)
    words.push(`expires=${new Date(token.expiresAtMs - DAY_MS).toISOString().slice(0, 10)}`);
  return words.join(" ");
}

function proofText(proof: Proof): string {
  if (proof.kind === "certificate") return "certificate";
  if (proof.kind === "sha256") return `sha256:${proof.hash}`;
  const { N, r, p } = proof.cost;
  return `scrypt:${N}:${r}:${p}:${proof.salt}:${proof.hash}`;
}
