// Access rules of the listeners, read from the files that the settings name.

import { X509Certificate } from "node:crypto";
import type {
  AccessRules,
  ListenerPolicy,
  ShownCertificate,
  TlsPolicy,
} from "../../acceptor/admission/listener-policy.ts";
import { checkTls } from "../../acceptor/sockets/tls-context.ts";
import type { ListenerOptions } from "../options/listener-settings.ts";
import { ExitCode, OperatorError } from "../options/operator-error.ts";
import { readOperatorFile } from "../options/operator-file.ts";
import type { Settings } from "../options/settings.ts";
import { readTokens } from "./token-store.ts";

const DAY_MS = 86_400_000;
/** Warn of certificates that expire within this time. */
const EXPIRY_WARNED_MS = 14 * DAY_MS;

const fault = (message: string): OperatorError => new OperatorError(message, ExitCode.Usage);

/**
 * Reads all access rules. `hasFirst` tells whether the first listener is that of -l and -p, which
 * requires nothing. Throws an OperatorError.
 */
export function readAccessRules(settings: Settings, hasFirst: boolean): AccessRules {
  const { tokenFile, listeners, limits } = settings;
  for (const { address, auth } of listeners) {
    if (auth !== "none" && tokenFile === undefined)
      throw fault(`${address}: auth = "${auth}" needs a token-file; runnerbean token add creates one`);
  }
  const tokens = tokenFile === undefined ? [] : readTokens(tokenFile);
  const policies = listeners.map(policyOf);
  return { tokens, limits, policies: hasFirst ? [undefined, ...policies] : policies };
}

function policyOf(listener: ListenerOptions): ListenerPolicy | undefined {
  const { address, auth, allow, cert } = listener;
  if (auth === "none" && allow === undefined && cert === undefined) return undefined;
  return { name: address, auth, allow, tls: readTls(address, listener) };
}

/** File names, as a listener or `[http]` has them. */
type TlsFiles = Pick<ListenerOptions, "cert" | "key" | "clientCa" | "minVersion">;

/** Reads the TLS files. `name` is the listener's name for messages. Throws an OperatorError. */
export function readTls(name: string, { cert, key, clientCa, minVersion }: TlsFiles): TlsPolicy | undefined {
  if (cert === undefined || key === undefined) return undefined;
  const policy: TlsPolicy = {
    cert: readPem(name, cert),
    key: readPem(name, key),
    clientCa: clientCa === undefined ? undefined : readPem(name, clientCa),
    minVersion: `TLSv${minVersion}`,
  };
  try {
    checkTls(policy);
  } catch (error) {
    throw fault(`${name}: ${cert} and ${key} can't be used: ${(error as Error).message}`);
  }
  return policy;
}

function readPem(name: string, file: string): string {
  try {
    return readOperatorFile(file, "utf8");
  } catch (error) {
    throw fault(`${name}: cannot read ${file}: ${(error as Error).message}`);
  }
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
