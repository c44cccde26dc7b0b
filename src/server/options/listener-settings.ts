// `[[listener]]`: further listen addresses, each with its own access rules.

import type { ListenerPolicy } from "../../acceptor/admission/listener-policy.ts";
import { AddressList } from "../../access/client-address.ts";
import { readOperatorFile } from "../../config/operator-file.ts";
import { type FileTable, type ReadTable, type Setting, SettingError } from "../../config/setting.ts";

// Ports, as options name them.

const PORT_MAX = 65_535;

/**
 * Returns a port number for a number or the name of a TCP service; 0 for "", which picks a free
 * port. Throws SettingError.
 */
export function portNumber(text: string): number {
  if (text === "") return 0;
  if (/^[0-9]+$/.test(text)) {
    if (Number(text) <= PORT_MAX) return Number(text);
    throw new SettingError(`invalid port: ${text} (0 to ${PORT_MAX})`);
  }
  let services = "";
  try {
    services = readOperatorFile("system", "/etc/services");
  } catch {
    // Without the file, all names are unknown.
  }
  for (const line of services.split("\n")) {
    const [names, port] = [line.replace(/#.*/, "").split(/\s+/), /\s(\d+)\/tcp\b/.exec(line)?.[1]];
    if (port !== undefined && names.includes(text)) return Number(port);
  }
  throw new SettingError(`unknown port or service: ${text} (0 to ${PORT_MAX}, or a name of /etc/services)`);
}

export interface ListenerOptions {
  /** "host:port", "[::1]:port" or "unix:PATH". */
  address: string;
  /** TLS files. */
  cert: string | undefined;
  key: string | undefined;
  clientCa: string | undefined;
  minVersion: "1.2" | "1.3";
  auth: ListenerPolicy["auth"];
  allow: readonly string[] | undefined;
  /** Networks of proxies, whose connections begin with a PROXY header. */
  proxyFrom: readonly string[] | undefined;
  /** Permissions of a unix socket. */
  mode: number | undefined;
  group: string | undefined;
}

const AUTHS = ["none", "token", "certificate"] as const;
const UNIX = /^unix:.+/;
const TCP = /^(?:\[([\da-fA-F:.]+)\]|([^:[\]\s]+)):([\w-]+)$/;

export const LISTENER_SETTINGS: readonly Setting<ListenerOptions>[] = [
  {
    key: "address",
    kind: "text",
    text: "host:port, [::1]:port or unix:PATH",
    example: "0.0.0.0:11400",
    apply(listener, address) {
      if (!UNIX.test(address) && !TCP.test(address))
        throw new SettingError(`${address} is not a valid address: host:port, [::1]:port or unix:PATH`);
      portNumber(hostAndPort(address)?.port ?? "");
      listener.address = address;
    },
    show: ({ address }) => address,
  },
  {
    key: "tls.cert",
    kind: "text",
    text: "certificate chain, PEM",
    example: "/etc/runnerbean/cert.pem",
    apply(listener, file) {
      listener.cert = file;
    },
    show: ({ cert }) => cert,
  },
  {
    key: "tls.key",
    kind: "text",
    text: "the certificate's private key, PEM",
    example: "/etc/runnerbean/key.pem",
    apply(listener, file) {
      listener.key = file;
    },
    show: ({ key }) => key,
  },
  {
    key: "tls.client-ca",
    kind: "text",
    text: "require clients to have a certificate signed by one of these authorities, PEM",
    example: "/etc/runnerbean/clients.pem",
    apply(listener, file) {
      listener.clientCa = file;
    },
    show: ({ clientCa }) => clientCa,
  },
  {
    key: "tls.min",
    kind: "text",
    text: "minimum TLS version: 1.2 (default) or 1.3",
    example: "1.2",
    apply(listener, version) {
      if (version !== "1.2" && version !== "1.3") throw new SettingError(`${version} is neither 1.2 nor 1.3`);
      listener.minVersion = version;
    },
    show: ({ minVersion }) => minVersion,
  },
  {
    key: "auth",
    kind: "text",
    text: "none (default), token (clients send auth TOKEN first) or certificate",
    example: "none",
    apply(listener, text) {
      const auth = AUTHS.find((each) => each === text);
      if (auth === undefined) throw new SettingError(`${text} is not one of ${AUTHS.join(", ")}`);
      listener.auth = auth;
    },
    show: ({ auth }) => auth,
  },
  {
    key: "allow",
    kind: "list",
    text: "allowed addresses and networks; all by default",
    example: ["10.0.0.0/8", "fd00::/8"],
    set(listener, allow) {
      listener.allow = networks(allow);
    },
    show: ({ allow }) => allow,
  },
  {
    key: "proxy-from",
    kind: "list",
    text: "addresses and networks of proxies: a connection from there begins with a PROXY header, version 1 or 2, which names the client",
    example: ["10.0.0.7"],
    set(listener, proxies) {
      listener.proxyFrom = networks(proxies);
    },
    show: ({ proxyFrom }) => proxyFrom,
  },
  {
    key: "mode",
    kind: "text",
    text: 'permissions of a unix socket, such as "0660"',
    apply(listener, text) {
      if (!/^0?[0-7]{3}$/.test(text)) throw new SettingError(`${text} is not a file mode such as "0660"`);
      listener.mode = Number.parseInt(text, 8);
    },
    show: ({ mode }) => (mode === undefined ? undefined : `0${mode.toString(8)}`),
  },
  {
    key: "group",
    kind: "text",
    text: "group of a unix socket",
    apply(listener, group) {
      listener.group = group;
    },
    show: ({ group }) => group,
  },
];

/** Returns the addresses and networks of a list. Throws SettingError for others. */
export function networks(texts: readonly string[]): readonly string[] {
  try {
    new AddressList(texts);
    return texts;
  } catch (error) {
    if (error instanceof TypeError) throw new SettingError(error.message);
    throw error;
  }
}

function newListener(): ListenerOptions {
  return {
    address: "",
    cert: undefined,
    key: undefined,
    clientCa: undefined,
    minVersion: "1.2",
    auth: "none",
    allow: undefined,
    proxyFrom: undefined,
    mode: undefined,
    group: undefined,
  };
}

/**
 * Returns the listeners of the tables. Throws SettingError for settings that exclude each other.
 */
export function readListeners(tables: readonly FileTable[], read: ReadTable): ListenerOptions[] {
  return tables.map((table) => {
    const listener = newListener();
    read(LISTENER_SETTINGS, ["address"], listener, table);
    const { address, cert, key, clientCa, auth, proxyFrom, mode, group } = listener;
    const wrong = (what: string): SettingError => new SettingError(`${address}: ${what}`);
    if ((cert === undefined) !== (key === undefined)) throw wrong("tls needs both cert and key");
    if (clientCa !== undefined && cert === undefined) throw wrong("tls.client-ca needs tls.cert and tls.key");
    if (auth === "certificate" && clientCa === undefined)
      throw wrong('auth = "certificate" needs tls.client-ca');
    if (!UNIX.test(address) && (mode ?? group) !== undefined)
      throw wrong("mode and group are for unix sockets");
    if (UNIX.test(address) && proxyFrom !== undefined)
      throw wrong("proxy-from is for TCP: the clients of a unix socket have no address");
    return listener;
  });
}

export function listenerTable(listener: ListenerOptions): FileTable {
  const table: Record<string, unknown> = {};
  const tls: Record<string, unknown> = {};
  for (const row of LISTENER_SETTINGS) {
    const value = row.show(listener);
    if (value === undefined) continue;
    if (!row.key.startsWith("tls.")) table[row.key] = value;
    else if (listener.cert !== undefined) tls[row.key.slice(4)] = value;
  }
  return listener.cert === undefined ? table : { ...table, tls };
}

/** Returns the part of a listener that only a restart can change. */
export function unchangeable({ address, cert, clientCa, mode, group }: ListenerOptions): unknown {
  return [address, cert !== undefined, clientCa !== undefined, mode, group];
}

/** Returns the open listeners with the settings of `next`, as far as they may change at runtime. */
export function changedListeners(
  open: readonly ListenerOptions[],
  next: readonly ListenerOptions[],
): ListenerOptions[] {
  const same = (a: ListenerOptions, b: ListenerOptions): boolean =>
    JSON.stringify(unchangeable(a)) === JSON.stringify(unchangeable(b));
  return open.map((listener) => next.find((each) => same(listener, each)) ?? listener);
}

/** Returns host and port of a TCP address; undefined for a unix socket. */
export function hostAndPort(address: string): { host: string; port: string } | undefined {
  const [, v6, name, port] = TCP.exec(address) ?? [];
  const host = v6 ?? name;
  return UNIX.test(address) || host === undefined || port === undefined ? undefined : { host, port };
}
