// Who is let in on which listener, read from the files that the settings name.

import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import type { AccessRules, ListenerPolicy, TlsPolicy } from "../acceptor/listener-policy.ts";
import { checkTls } from "../acceptor/tls-sockets.ts";
import type { ListenerOptions } from "./listener-settings.ts";
import { ExitCode, OperatorError } from "./operator-error.ts";
import type { Settings } from "./settings.ts";
import { readTokens } from "./token-store.ts";

const DAY_MS = 86_400_000;
const EXPIRY_WARNED_MS = 14 * DAY_MS;

const fault = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage);

/** `hasFirst` if the first listener is that of -l and -p, which demands nothing. Throws an OperatorError. */
export function readAccessRules(settings: Settings, hasFirst: boolean): AccessRules {
  const { tokenFile, listeners, limits } = settings;
  for (const { address, auth } of listeners) {
    if (auth !== "none" && tokenFile === undefined)
      throw fault(`${address}: auth = "${auth}" needs a token-file; runnerbean token add makes one`);
  }
  const tokens = tokenFile === undefined ? [] : readTokens(tokenFile);
  const policies = listeners.map(policyOf);
  return { tokens, limits, policies: hasFirst ? [undefined, ...policies] : policies };
}

function policyOf(listener: ListenerOptions): ListenerPolicy | undefined {
  const { address, auth, allow, cert } = listener;
  if (auth === "none" && allow === undefined && cert === undefined) return undefined;
  return { name: address, auth, allow, tls: tlsOf(listener) };
}

function tlsOf({ address, cert, key, clientCa, minVersion }: ListenerOptions): TlsPolicy | undefined {
  if (cert === undefined || key === undefined) return undefined;
  const policy: TlsPolicy = {
    cert: readPem(address, cert),
    key: readPem(address, key),
    clientCa: clientCa === undefined ? undefined : readPem(address, clientCa),
    minVersion: `TLSv${minVersion}`,
  };
  try {
    checkTls(policy);
  } catch (error) {
    throw fault(`${address}: ${cert} and ${key} can't be used: ${(error as Error).message}`);
  }
  return policy;
}

function readPem(address: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    throw fault(`${address}: cannot read ${file}: ${(error as Error).message}`);
  }
}

/** What is to be said of certificates whose end is near, or behind. */
export function expiryWarnings({ policies }: AccessRules, nowMs: number): string[] {
  return policies.flatMap((policy) => {
    if (policy?.tls === undefined) return [];
    const { validTo } = new X509Certificate(policy.tls.cert);
    const leftMs = Date.parse(validTo) - nowMs;
    if (leftMs > EXPIRY_WARNED_MS) return [];
    const when = leftMs < 0 ? "is over since" : "ends on";
    return [
      `the certificate of ${policy.name} ${when} ${validTo}: replace it, then kill -HUP ${process.pid}`,
    ];
  });
}
