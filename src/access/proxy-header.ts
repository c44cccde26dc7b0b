// The PROXY protocol: a header with which a proxy begins a connection, and in which it names its
// client. Version 1 is a line of text, version 2 is binary; see proxy-protocol.txt of HAProxy.

import ipaddr from "ipaddr.js";

/** A client as its proxy names it, in the form in which a socket names its peer. */
export interface ProxiedPeer {
  readonly address: string;
  readonly port: number;
  readonly family: "IPv4" | "IPv6";
}

interface ProxyHeader {
  /** Its length. */
  readonly bytes: number;
  /** Undefined if the connection is the proxy's own, or if the proxy doesn't know the client. */
  readonly peer: ProxiedPeer | undefined;
}

const V1_START = Buffer.from("PROXY ");
/** Including CR LF. */
const V1_BYTES_MAX = 107;
const V1_LINE = /^PROXY (?:UNKNOWN(?: .*)?|TCP([46]) (\S+) (\S+) (\d{1,5}) (\d{1,5}))$/;
const PORT_MAX = 65_535;

const V2_START = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");
/** The start, then a byte each for version and command, and for the family; two for the length. */
const V2_FIXED_BYTES = 16;
/** Version 2 allows 64 KiB, for extensions that nobody here reads. */
const V2_BYTES_MAX = 4096;
const V2_LOCAL = 0x20;
const V2_PROXY = 0x21;
/** The bytes of the two addresses with their ports, by family and transport. */
const V2_ADDRESS_BYTES: Readonly<Record<number, number>> = {
  /** Unknown to the proxy. */
  0: 0,
  /** TCP over IPv4 and IPv6. */
  17: 12,
  33: 36,
  /** A unix socket of the proxy. */
  49: 216,
};

/**
 * Reads the header at the start of a connection's bytes. Returns "cut" if more bytes must come,
 * "missing" if they begin with no header, and "wrong" if it is malformed.
 */
export function readProxyHeader(bytes: Buffer): ProxyHeader | "cut" | "missing" | "wrong" {
  if (begins(bytes, V1_START)) return bytes.length < V1_START.length ? "cut" : readV1(bytes);
  if (!begins(bytes, V2_START)) return "missing";
  return bytes.length < V2_FIXED_BYTES ? "cut" : readV2(bytes);
}

/** Returns whether the bytes, of which more may come, begin in this way. */
function begins(bytes: Buffer, start: Buffer): boolean {
  const length = Math.min(bytes.length, start.length);
  return bytes.compare(start, 0, length, 0, length) === 0;
}

function readV1(bytes: Buffer): ProxyHeader | "cut" | "wrong" {
  const end = bytes.subarray(0, V1_BYTES_MAX).indexOf("\r\n");
  if (end < 0) return bytes.length < V1_BYTES_MAX ? "cut" : "wrong";
  const parts = V1_LINE.exec(bytes.toString("latin1", 0, end));
  if (parts === null) return "wrong";
  const [, version, source = "", destination = "", port, otherPort] = parts;
  if (version === undefined) return { bytes: end + 2, peer: undefined };
  const isOfVersion = version === "4" ? ipaddr.IPv4.isValidFourPartDecimal : isIPv6;
  if (!isOfVersion(source) || !isOfVersion(destination)) return "wrong";
  if (Number(port) > PORT_MAX || Number(otherPort) > PORT_MAX) return "wrong";
  return { bytes: end + 2, peer: peerOf(ipaddr.process(source), Number(port)) };
}

/** The zone of an address means something on the proxy's machine only. */
const isIPv6 = (text: string): boolean => !text.includes("%") && ipaddr.IPv6.isValid(text);

function readV2(bytes: Buffer): ProxyHeader | "cut" | "wrong" {
  const [command, family] = [bytes[12]!, bytes[13]!];
  const addressBytes = bytes.readUInt16BE(14);
  const length = V2_FIXED_BYTES + addressBytes;
  if (length > V2_BYTES_MAX || (command !== V2_LOCAL && command !== V2_PROXY)) return "wrong";
  const needed = command === V2_LOCAL ? 0 : V2_ADDRESS_BYTES[family];
  if (needed === undefined || addressBytes < needed) return "wrong";
  if (bytes.length < length) return "cut";
  if (command === V2_LOCAL || (family !== 0x11 && family !== 0x21)) return { bytes: length, peer: undefined };
  const size = family === 0x11 ? 4 : 16;
  const source = bytes.subarray(V2_FIXED_BYTES, V2_FIXED_BYTES + size);
  const port = bytes.readUInt16BE(V2_FIXED_BYTES + 2 * size);
  return { bytes: length, peer: peerOf(ipaddr.process(ipaddr.fromByteArray([...source]).toString()), port) };
}

function peerOf(address: ReturnType<typeof ipaddr.process>, port: number): ProxiedPeer {
  return { address: address.toString(), port, family: address.kind() === "ipv4" ? "IPv4" : "IPv6" };
}
