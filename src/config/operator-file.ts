// Reader of the files that the operator names: configuration, tokens, settings of tubes,
// certificates, keys, CAs, credentials. A start, a reload, `config check` and the tools share it:
// a bad file is refused everywhere in the same words. The whole file is usable, or none of it.

import { createPrivateKey, X509Certificate } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { isCutSecret, SECRET_LENGTH } from "../access/secrets.ts";

/** A file that can't be used. The message names the file and its fault in one line. */
export class FileFault extends Error {}

interface Kind {
  /** What messages call the file. */
  readonly name: string;
  readonly bytesMax: number;
  /** What to do about an empty file. */
  readonly ifEmpty?: string;
  /** Users who can write the file could grant themselves access. */
  readonly onlyOwnerWrites?: true;
  /** Certificates and keys; the text around them may be anything. */
  readonly isPem?: true;
  /** Returns the part of the text that is used. Throws a Fault. */
  readonly take: (text: string) => string;
}

/** What is wrong with a file: the rest of a sentence that begins with its name. */
class Fault extends Error {}

const asIs = (text: string): string => text;
const plain = (text: string): string => {
  const label = blocksOf(text)[0]?.label;
  if (label !== undefined) throw new Fault(`holds a ${label.toLowerCase()} in PEM: is it the right file?`);
  return text;
};

/** Finding line numbers takes time quadratic in the number of lines. */
export const CONFIGURATION_BYTES_MAX = 256 << 10;

/** All kinds of files, with what makes each valid. */
const KINDS = {
  configuration: {
    name: "configuration",
    bytesMax: CONFIGURATION_BYTES_MAX,
    ifEmpty: "to set nothing, leave a comment in it",
    take: plain,
  },
  tokens: {
    name: "token file",
    bytesMax: 4 << 20,
    ifEmpty: 'add a token; to revoke all of them, write the line "# no tokens"',
    onlyOwnerWrites: true,
    take: plain,
  },
  tubes: {
    name: "tubes file",
    bytesMax: 4 << 20,
    ifEmpty: "to set nothing, leave a comment in it",
    take: plain,
  },
  certificate: { name: "certificate", bytesMax: 1 << 20, isPem: true, take: takeCertificates },
  key: { name: "key", bytesMax: 1 << 20, isPem: true, take: takeKey },
  ca: { name: "CA file", bytesMax: 4 << 20, isPem: true, take: takeAuthorities },
  secret: { name: "file of the token", bytesMax: 64 << 10, take: takeSecret },
  credentials: { name: "credentials file", bytesMax: 64 << 10, take: takeCredentials },
  system: { name: "file", bytesMax: 16 << 20, take: asIs },
} as const satisfies Record<string, Kind>;

export type FileKind = keyof typeof KINDS;

/** Maximum size of any file. */
export const FILE_BYTES_MAX = Math.max(...Object.values(KINDS).map(({ bytesMax }) => bytesMax));

/**
 * Returns the text of a file without a byte order mark, and of PEM only the blocks used. Never
 * blocks on a FIFO or a device. Throws a FileFault.
 */
export function readOperatorFile(kind: FileKind, path: string): string {
  return named(kind, path, () => {
    const row: Kind = KINDS[kind];
    return row.take(textOf(readBytes(path, row), row));
  });
}

/** Returns a certificate chain and its key, which belong together. Throws a FileFault. */
export function readKeyPair(certPath: string, keyPath: string): { cert: string; key: string } {
  const cert = readOperatorFile("certificate", certPath);
  const key = readOperatorFile("key", keyPath);
  const fits = (certificate: X509Certificate): boolean => certificate.checkPrivateKey(createPrivateKey(key));
  const chain = blocksOf(cert).map(certificateOf);
  if (fits(chain[0]!)) return { cert, key };
  return named("key", keyPath, () => {
    const isLater = chain.some(fits);
    const order = isLater ? "the first certificate: the server's own must come first in" : "the certificate";
    throw new Fault(`does not belong to ${order} ${certPath}`);
  });
}

function named<T>(kind: FileKind, path: string, act: () => T): T {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    // A control character of a path could forge a second line.
    const shown = path === "" ? '""' : path.replace(/\p{Cc}/gu, "?");
    throw new FileFault(`the ${KINDS[kind].name} ${shown} ${error.message}`);
  }
}

// --- bytes ------------------------------------------------------------------------------------

const OTHERS_WRITE = 0o022;

function readBytes(path: string, { bytesMax, onlyOwnerWrites }: Kind): Buffer {
  let descriptor: number | undefined;
  try {
    descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const found = fstatSync(descriptor);
    if (found.isDirectory()) throw new Fault("is a directory; name a file");
    if (!found.isFile()) throw new Fault("is a FIFO or a device; name a regular file");
    if (onlyOwnerWrites === true && (found.mode & OTHERS_WRITE) !== 0)
      throw new Fault(`can be written by users other than its owner: chmod go-w ${path}`);
    if (found.size > bytesMax) throw new Fault(`is larger than ${bytesMax} bytes: is it the right file?`);
    // A file may grow while it is read, and one in /proc says that it has none.
    return readUpTo(descriptor, found.size, bytesMax);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault(cannotRead(error as NodeJS.ErrnoException));
  } finally {
    if (descriptor !== undefined) closeSync(descriptor);
  }
}

const READ_BYTES_MIN = 64 << 10;

function readUpTo(descriptor: number, size: number, bytesMax: number): Buffer {
  const chunks: Buffer[] = [];
  for (let length = 0; length <= bytesMax; ) {
    const chunk = Buffer.allocUnsafe(Math.min(Math.max(size, READ_BYTES_MIN), bytesMax) + 1);
    const count = readSync(descriptor, chunk);
    if (count === 0) return Buffer.concat(chunks);
    chunks.push(chunk.subarray(0, count));
    length += count;
  }
  throw new Fault(`is larger than ${bytesMax} bytes: is it the right file?`);
}

function cannotRead({ code, message }: NodeJS.ErrnoException): string {
  if (code === "ENOENT") return "does not exist (ENOENT)";
  if (code === "ENXIO") return "is a socket; name a regular file";
  if (code === "EACCES" || code === "EPERM")
    return `cannot be read: permission denied for user ${process.geteuid?.()} (${code})`;
  return `cannot be read: ${message.replace(/, (?:open|read).*/s, "")}`;
}

const BOM = Buffer.from("\ufeff");

function textOf(bytes: Buffer, { isPem, ifEmpty }: Kind): string {
  if (startsWith(bytes, [0xff, 0xfe]) || startsWith(bytes, [0xfe, 0xff]))
    throw new Fault("is UTF-16: save it as UTF-8");
  const isDer = isPem === true && bytes[0] === 0x30 && (bytes[1]! & 0x80) !== 0;
  if (isDer) throw new Fault("is binary (DER or PKCS #12): convert it to PEM with openssl");
  if (bytes.includes(0)) throw new Fault("holds NUL bytes: it is damaged, or no text");
  const rest = startsWith(bytes, BOM) ? bytes.subarray(BOM.length) : bytes;
  const text = isPem === true ? rest.toString("latin1") : utf8Of(rest);
  if (text.trim() === "")
    throw new Fault(
      `${rest.length === 0 ? "is empty" : "is blank"}${ifEmpty === undefined ? "" : `: ${ifEmpty}`}`,
    );
  return text;
}

const startsWith = (bytes: Buffer, mark: Iterable<number>): boolean =>
  [...mark].every((byte, index) => bytes[index] === byte);

function utf8Of(bytes: Buffer): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Fault("is not UTF-8 text");
  }
}

// --- PEM --------------------------------------------------------------------------------------

interface Block {
  readonly label: string;
  /** The number of its first line. */
  readonly line: number;
  readonly lines: readonly string[];
}

const BEGIN = "-----BEGIN ";
const MARK = /^-{5,}(BEGIN|END) ([^-]+)-{5,}$/;
const BROKEN_MARK = /^-{5,}(?:BEGIN|END)/;
const CERTIFICATE = /^(?:X509 |TRUSTED )?CERTIFICATE$/;
const KEY = /^(?:\w+ )?PRIVATE KEY$/;

/** Returns all blocks. Throws a Fault if one is cut: OpenSSL ignores what it doesn't understand. */
function blocksOf(text: string): Block[] {
  const lines = text.split(/\r\n|\n|\r/).map((line) => line.trimEnd());
  if (isBegun(lines.at(-1)!)) throw cut(lines.length);
  const marks = lines.flatMap((line, index) => (BROKEN_MARK.test(line) ? [index] : []));
  const begins = marks.filter((_, at) => at % 2 === 0);
  return begins.map((begin, at) => blockAt(lines, begin, marks[2 * at + 1] ?? lines.length));
}

function blockAt(lines: readonly string[], begin: number, end: number): Block {
  const [, first, label] = MARK.exec(lines[begin]!) ?? [];
  const [, last, same] = MARK.exec(lines[end] ?? "") ?? [];
  if (label === undefined || first !== "BEGIN" || last !== "END" || same !== label) throw cut(begin + 1);
  return { label, line: begin + 1, lines: lines.slice(begin + 1, end) };
}

const isBegun = (line: string): boolean => line !== "" && BEGIN.startsWith(line);

const cut = (line: number): Fault => new Fault(`is cut: what begins in line ${line} is not whole`);

const pemOf = ({ label, lines }: Block): string =>
  [`-----BEGIN ${label}-----`, ...lines, `-----END ${label}-----`, ""].join("\n");

function certificateOf(block: Block): X509Certificate {
  try {
    return new X509Certificate(pemOf(block));
  } catch {
    throw new Fault(`is damaged: what begins in line ${block.line} is not a certificate`);
  }
}

/** Returns the blocks that `label` accepts, of which there is at least one. */
function blocksNamed(text: string, label: RegExp, wanted: string): Block[] {
  const blocks = blocksOf(text);
  const found = blocks.filter((block) => label.test(block.label));
  if (found.length > 0) return found;
  const other = blocks[0]?.label.toLowerCase();
  throw new Fault(other === undefined ? `holds no ${wanted} in PEM` : `holds a ${other}, and no ${wanted}`);
}

function takeCertificates(text: string): string {
  const blocks = blocksNamed(text, CERTIFICATE, "certificate");
  blocks.forEach(certificateOf);
  return blocks.map(pemOf).join("");
}

/** OpenSSL accepts a chain only if it ends in a certificate that has signed itself. */
function takeAuthorities(text: string): string {
  const blocks = blocksNamed(text, CERTIFICATE, "certificate");
  const certificates = blocks.map(certificateOf);
  const isEnd = (certificate: X509Certificate, index: number): boolean =>
    blocks[index]!.label.startsWith("TRUSTED") || certificate.checkIssued(certificate);
  if (certificates.some(isEnd)) return blocks.map(pemOf).join("");
  throw new Fault(
    certificates.some(({ ca }) => ca)
      ? "holds no root CA, only intermediate ones: add the root"
      : "holds no CA: its certificates may not sign others",
  );
}

function takeKey(text: string): string {
  const [block] = blocksNamed(text, KEY, "private key") as [Block];
  if (block.label.startsWith("OPENSSH")) throw new Fault("is a key for OpenSSH, not for TLS");
  if (block.label.startsWith("ENCRYPTED") || block.lines.some((line) => /^Proc-Type:.*ENCRYPTED/.test(line)))
    throw new Fault("is encrypted; decrypt it with: openssl pkey -in FILE -out NEW_FILE");
  const pem = pemOf(block);
  try {
    createPrivateKey(pem);
  } catch {
    throw new Fault("is damaged: it is not a private key");
  }
  return pem;
}

// --- tokens and credentials -------------------------------------------------------------------

/** The message must not reveal the secret. */
function takeSecret(text: string): string {
  const secret = plain(text).trim();
  if (!/^[\x20-\x7e]+$/.test(secret))
    throw new Fault("has more than one line, or letters that are not ASCII");
  if (/ (?:sha256:[\da-f]{64}|scrypt:\d)/.test(secret))
    throw new Fault(
      "is a token file, which has no secrets: name a file with the secret that `token add` printed",
    );
  if (isCutSecret(secret))
    throw new Fault(`is cut: its token has ${secret.length} characters instead of ${SECRET_LENGTH}`);
  return secret;
}

/** Credentials of a NATS user: a JWT and a seed. */
function takeCredentials(text: string): string {
  const blocks = blocksOf(text);
  const find = (label: RegExp, pattern: RegExp): Block | undefined =>
    blocks.find((block) => label.test(block.label) && pattern.test(block.lines.join("").trim()));
  const jwt = find(/JWT/, /^[\w-]+\.[\w-]+\.[\w-]+$/);
  const seed = find(/SEED/, /^SU[A-Z2-7]{56}$/);
  if (jwt === undefined || seed === undefined)
    throw new Fault("holds no JWT and seed of a NATS user: is it from `nsc generate creds`?");
  return [jwt, seed].map(pemOf).join("\n");
}
