// What a listener demands of its clients, and what all connections are limited to, as the main thread tells acceptors.

import type { Token } from "../../access/token-file.ts";

/** Certificates and keys as PEM. */
export interface TlsPolicy {
  readonly cert: string;
  readonly key: string;
  /** Clients need a certificate that one of these has signed. */
  readonly clientCa: string | undefined;
  readonly minVersion: "TLSv1.2" | "TLSv1.3";
}

/** A certificate that the server shows. */
export interface ShownCertificate {
  /** Of its listener. */
  readonly name: string;
  readonly endsAtMs: number;
}

export interface ListenerPolicy {
  /** As it is called in logs. */
  readonly name: string;
  readonly tls: TlsPolicy | undefined;
  readonly auth: "none" | "token" | "certificate";
  /** Addresses and networks that are let in; undefined for all. */
  readonly allow: readonly string[] | undefined;
}

export interface KeepAlive {
  readonly delayMs: number;
  /** The system's, if it is not given. */
  readonly intervalMs: number | undefined;
  readonly count: number | undefined;
}

export interface ConnectionLimits {
  /** Over all acceptors; Infinity for no other limit than descriptors. */
  readonly connections: number;
  readonly perAddress: number;
  /** A connection that does nothing for so long is closed; Infinity for never. */
  readonly idleMs: number;
  readonly keepAlive: KeepAlive;
}

/** What may change while the server runs. */
export interface AccessRules {
  readonly tokens: readonly Token[];
  readonly limits: ConnectionLimits;
  /** By listener, in the order in which they listen; undefined for one that demands nothing. */
  readonly policies: readonly (ListenerPolicy | undefined)[];
}

/** Idle time before the first keep-alive probe, ms. */
export const KEEP_ALIVE_DELAY_MS = 60_000;

export const NO_LIMITS: ConnectionLimits = {
  connections: Number.POSITIVE_INFINITY,
  perAddress: Number.POSITIVE_INFINITY,
  idleMs: Number.POSITIVE_INFINITY,
  keepAlive: { delayMs: KEEP_ALIVE_DELAY_MS, intervalMs: undefined, count: undefined },
};
