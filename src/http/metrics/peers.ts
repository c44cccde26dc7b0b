// The addresses of clients by the descriptors of their connections, as the kernel knows them.

import { readFileSync, readlinkSync } from "node:fs";

/** Address and port by the inode of a TCP socket. */
function tcpPeers(): Map<string, string> {
  const peers = new Map<string, string>();
  for (const [file, words] of [
    ["/proc/net/tcp", 1],
    ["/proc/net/tcp6", 4],
  ] as const) {
    for (const line of contents(file).split("\n").slice(1)) {
      const fields = line.trim().split(/\s+/);
      const [address, port] = (fields[2] ?? "").split(":");
      if (address === undefined || port === undefined || address.length !== words * 8) continue;
      peers.set(fields[9]!, `${words === 1 ? ipv4(address) : ipv6(address)}:${Number.parseInt(port, 16)}`);
    }
  }
  return peers;
}

/** The bytes of each word are in the order of this machine. */
const bytesOf = (hex: string): number[] =>
  Array.from({ length: 4 }, (_, at) => Number.parseInt(hex.slice(6 - at * 2, 8 - at * 2), 16));

const ipv4 = (hex: string): string => bytesOf(hex).join(".");

function ipv6(hex: string): string {
  const bytes = [0, 8, 16, 24].flatMap((at) => bytesOf(hex.slice(at, at + 8)));
  const isMapped = bytes.slice(0, 10).every((byte) => byte === 0) && bytes[10] === 255;
  if (isMapped) return bytes.slice(12).join(".");
  const groups = Array.from({ length: 8 }, (_, at) =>
    ((bytes[at * 2]! << 8) | bytes[at * 2 + 1]!).toString(16),
  );
  return `[${groups.join(":").replace(/(?:^|:)0(?::0)+(?::|$)/, "::")}]`;
}

/** For each descriptor its client's address, or "unix" for a socket that is none of TCP's; null where it can't be known. */
export function peersOf(descriptors: readonly number[]): (string | null)[] {
  const peers = tcpPeers();
  return descriptors.map((descriptor) => {
    try {
      const inode = /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${descriptor}`))?.[1];
      return inode === undefined ? null : (peers.get(inode) ?? "unix");
    } catch {
      return null;
    }
  });
}

function contents(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
