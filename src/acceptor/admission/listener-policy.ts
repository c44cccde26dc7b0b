// Access rules of listeners and limits on all connections, as the main thread sends them to the
// acceptors.

import type { Token } from "../../access/token-file.ts";

/** Certificates and keys, in PEM. */
export interface TlsPolicy {
  readonly cert: string;
  readonly key: string;
  /** CAs that may sign client certificates; undefined if clients need no certificate. */
  readonly clientCa: string | undefined;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
}

/** A certificate that the server presents. */
export interface ShownCertificate {
  /** The name of its listener. */
  readonly name: string;
  readonly endsAtMs: number;
}

export interface ListenerPolicy {
  /** Its name in logs. */
  readonly name: string;
  readonly tls: TlsPolicy | undefined;
  readonly auth: "none" | "token" | "certificate";
  /** Permitted addresses and networks; undefined permits all. */
  readonly allow: readonly string[] | undefined;
  /** Networks of proxies, whose connections begin with a PROXY header. */
  readonly proxyFrom: readonly string[] | undefined;
}

export interface KeepAlive {
  readonly delayMs: number;
  /** Undefined: the system's default. */
  readonly intervalMs: number | undefined;
  readonly count: number | undefined;
}

export interface ConnectionLimits {
  /** The limit over all acceptors. Infinity means that only file descriptors limit it. */
  readonly connections: number;
  readonly perAddress: number;
  /** Idle time after which a connection is closed; Infinity for never. */
  readonly idleMs: number;
  readonly keepAlive: KeepAlive;
}

/** The settings that may change while the server runs. */
export interface AccessRules {
  readonly tokens: readonly Token[];
  readonly limits: ConnectionLimits;
  /**
   * By listener, in the order in which they listen; undefined for a listener without restrictions.
   */
  readonly policies: readonly (ListenerPolicy | undefined)[];
}

/** Idle time before the first keep-alive probe, in ms. */
const KEEP_ALIVE_DELAY_MS = 60_000;

export const NO_LIMITS: ConnectionLimits = {
  connections: Number.POSITIVE_INFINITY,
  perAddress: Number.POSITIVE_INFINITY,
  idleMs: Number.POSITIVE_INFINITY,
  keepAlive: { delayMs: KEEP_ALIVE_DELAY_MS, intervalMs: undefined, count: undefined },
};
