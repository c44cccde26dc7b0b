// Access rules of the listeners, read from the files that the settings name.

import { X509Certificate } from "node:crypto";
import {
  closeSync,
  fchmodSync,
  fchownSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import type {
  AccessRules,
  ListenerPolicy,
  ShownCertificate,
  TlsPolicy,
} from "../../acceptor/admission/listener-policy.ts";
import { checkTls } from "../../acceptor/sockets/tls-context.ts";
import { parseTokenFile, type Token, tokenLine } from "../../access/token-file.ts";
import { readKeyPair, readOperatorFile } from "../../config/operator-file.ts";
import type { ListenerOptions } from "../options/listener-settings.ts";
import { ExitCode, OperatorError, operatorFault } from "../options/operator-error.ts";
import type { Settings } from "../options/settings.ts";

// The token file on disk. It is read as a whole or not at all, and replaced atomically.

const MODE_NEW = 0o600;
/** Faults that one message names; a file of another kind would have one in each line. */
const FAULTS_MAX = 10;

const fault = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage);

/** Returns all tokens of the file. Throws an OperatorError that names every fault with its line. */
export function readTokens(path: string): readonly Token[] {
  const { tokens, faults } = parseTokenFile(readText(path));
  const lines = faults.slice(0, FAULTS_MAX).map(({ line, message }) => `${path}:${line}: ${message}`);
  if (faults.length > FAULTS_MAX) lines.push(`${path}: and ${faults.length - FAULTS_MAX} more faults`);
  if (faults.length > 0) throw fault(lines.join("\n"));
  return tokens;
}

function readText(path: string): string {
  return operatorFault(() => readOperatorFile("tokens", path));
}

/** Returns the file's text; empty if there is no file yet, or nothing in it. */
export function readTokenText(path: string): string {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined || (found.isFile() && found.size === 0) ? "" : readText(path);
}

interface Owner {
  readonly user: number;
  readonly group: number;
}

/**
 * Replaces the whole file; owner and mode stay the same. If root makes the file, it belongs to
 * `owner`. Throws an OperatorError.
 */
export function writeTokenText(path: string, text: string, owner?: Owner): void {
  // The name serves as a lock: without it, one of two concurrent changes would be lost.
  const next = `${path}.new`;
  try {
    const before = statSync(path, { throwIfNoEntry: false });
    const file = openSync(next, "wx", MODE_NEW);
    try {
      writeFileSync(file, text);
      // By the descriptor: who owns the folder could put a link to another file in its place.
      if (before !== undefined) fchmodSync(file, before.mode & 0o777);
      const ids = before === undefined ? owner : { user: before.uid, group: before.gid };
      if (ids !== undefined && process.getuid?.() === 0) fchownSync(file, ids.user, ids.group);
      renameSync(next, path);
    } catch (error) {
      rmSync(next, { force: true });
      throw error;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "EEXIST" ? `another process is writing it; if not, remove ${next}` : message;
    throw fault(`cannot write the token file ${path}: ${why}`);
  }
}

const DAY_MS = 86_400_000;
/** Warn of certificates that expire within this time. */
const EXPIRY_WARNED_MS = 14 * DAY_MS;

/** Policies of listeners whose files are not read again. */
type KeptPolicies = ReadonlyMap<ListenerOptions, ListenerPolicy | undefined>;

/**
 * Reads all access rules. `hasFirst` tells whether the first listener is that of -l and -p, which
 * requires nothing. Throws an OperatorError.
 */
export function readAccessRules(
  settings: Settings,
  hasFirst: boolean,
  kept: KeptPolicies = new Map(),
): AccessRules {
  const { tokenFile, listen, proxyFrom, listeners, limits } = settings;
  if (proxyFrom !== undefined && (listen === "none" || listen.startsWith("unix:")))
    throw fault(`--proxy-from is for TCP, and -l is ${listen}: set proxy-from in a [[listener]] instead`);
  for (const { address, auth } of listeners) {
    if (auth !== "none" && tokenFile === undefined)
      throw fault(`${address}: auth = "${auth}" needs a token-file; runnerbean token add creates one`);
  }
  const tokens = tokenFile === undefined ? [] : readTokens(tokenFile);
  const policies = listeners.map((each) => (kept.has(each) ? kept.get(each) : policyOf(each)));
  return { tokens, limits, policies: hasFirst ? [firstPolicy(proxyFrom), ...policies] : policies };
}

/** Returns the policy for the address of -l and -p, which never requires anything of clients. */
function firstPolicy(proxyFrom: readonly string[] | undefined): ListenerPolicy | undefined {
  if (proxyFrom === undefined) return undefined;
  return { name: "-l and -p", tls: undefined, auth: "none", allow: undefined, proxyFrom };
}

function policyOf(listener: ListenerOptions): ListenerPolicy | undefined {
  const { address, auth, allow, proxyFrom, cert } = listener;
  if (auth === "none" && (allow ?? proxyFrom ?? cert) === undefined) return undefined;
  return { name: address, auth, allow, proxyFrom, tls: readTls(address, listener) };
}

/** File names, as a listener or `[http]` has them. */
type TlsFiles = Pick<ListenerOptions, "cert" | "key" | "clientCa" | "minVersion">;

/** Reads the TLS files. `name` is the listener's name for messages. Throws an OperatorError. */
export function readTls(name: string, { cert, key, clientCa, minVersion }: TlsFiles): TlsPolicy | undefined {
  if (cert === undefined || key === undefined) return undefined;
  const policy: TlsPolicy = operatorFault(
    () => ({
      ...readKeyPair(cert, key),
      clientCa: clientCa === undefined ? undefined : readOperatorFile("ca", clientCa),
      minVersion: `TLSv${minVersion}`,
    }),
    `${name}: `,
  );
  try {
    checkTls(policy);
  } catch (error) {
    throw fault(`${name}: ${cert} and ${key} can't be used: ${(error as Error).message}`);
  }
  return policy;
}

export function certificateOf(name: string, { cert }: TlsPolicy): ShownCertificate {
  return { name, endsAtMs: Date.parse(new X509Certificate(cert).validTo) };
}

export function certificatesOf({ policies }: AccessRules): ShownCertificate[] {
  return policies.flatMap((policy) =>
    policy?.tls === undefined ? [] : [certificateOf(policy.name, policy.tls)],
  );
}

/** Returns warnings for certificates that expire soon or have expired. */
export function expiryWarnings(certificates: readonly ShownCertificate[], nowMs: number): string[] {
  return certificates.flatMap(({ name, endsAtMs }) => {
    if (endsAtMs - nowMs > EXPIRY_WARNED_MS) return [];
    const when = endsAtMs < nowMs ? "expired on" : "expires on";
    return [
      `the certificate of ${name} ${when} ${new Date(endsAtMs).toUTCString()}: replace it, then kill -HUP ${process.pid}`,
    ];
  });
}

// --- what a reload changed ----------------------------------------------------------------------

/** Everything that the files of tokens and certificates hold. */
interface FileContents {
  readonly tokens: readonly Token[];
  /** By the name of the listener, or "http". */
  readonly tls: ReadonlyMap<string, TlsPolicy>;
}

export function contentsOf({ tokens, policies }: AccessRules, httpTls: TlsPolicy | undefined): FileContents {
  const tls = new Map(
    policies.flatMap((policy) => (policy?.tls === undefined ? [] : [[policy.name, policy.tls]])),
  );
  if (httpTls !== undefined) tls.set("http", httpTls);
  return { tokens, tls };
}

/** Tokens that a reload names, each. */
const TOKENS_NAMED_MAX = 20;

/** Returns what is new: "token ann removed", "certificate of http (ends 2027-01-31)". */
export function contentChanges(before: FileContents, after: FileContents): string[] {
  const tokens = tokenChanges(before.tokens, after.tokens);
  const rest = tokens.length - TOKENS_NAMED_MAX;
  return [
    ...tokens.slice(0, TOKENS_NAMED_MAX),
    ...(rest > 0 ? [`${rest} more ${rest === 1 ? "token" : "tokens"}`] : []),
    ...[...after.tls].flatMap(([name, next]) => tlsChanges(name, before.tls.get(name), next)),
  ];
}

function tokenChanges(before: readonly Token[], after: readonly Token[]): string[] {
  const old = new Map(before.map((token) => [token.name, tokenLine(token)]));
  const changes = after.flatMap((token) => {
    const line = old.get(token.name);
    old.delete(token.name);
    if (line === undefined) return [`token ${token.name} added`];
    return line === tokenLine(token) ? [] : [`token ${token.name} changed`];
  });
  return [...[...old.keys()].map((name) => `token ${name} removed`), ...changes];
}

function tlsChanges(name: string, before: TlsPolicy | undefined, after: TlsPolicy): string[] {
  if (before === undefined) return [];
  const day = new Date(certificateOf(name, after).endsAtMs).toISOString().slice(0, 10);
  return [
    ...(before.cert === after.cert ? [] : [`certificate of ${name} (ends ${day})`]),
    ...(before.key === after.key ? [] : [`key of ${name}`]),
    ...(before.clientCa === after.clientCa ? [] : [`client CAs of ${name}`]),
  ];
}
