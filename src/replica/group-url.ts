// Parser of URLs such as nats://a:4222,b:4222,c:4222/GROUP?creds=FILE: the log servers of a group,
// and the group's name.

import { readOperatorFile } from "../config/operator-file.ts";

export interface GroupUrl {
  servers: string[];
  group: string;
  tls: boolean;
  /** The path of a NATS credentials file, or "". */
  credentials: string;
  /** What that file holds; undefined until it is read. */
  credentialsText?: string;
  /** For trials with a log server that uses a password. */
  user: string;
  password: string;
}

const GROUP = /^[A-Za-z0-9_-]{1,32}$/;

/** Returns the URL with what its credentials file holds. Throws also a FileFault. */
export function readGroupUrl(text: string): GroupUrl {
  const url = parseGroupUrl(text);
  if (url.credentials === "") return url;
  return { ...url, credentialsText: readOperatorFile("credentials", url.credentials) };
}

/** Throws an Error with a message for the operator. */
export function parseGroupUrl(text: string): GroupUrl {
  const match = /^(nats|tls):\/\/(?:([^@/]*)@)?([^/@?]+)\/([^?]*)(?:\?(.*))?$/.exec(text);
  if (match === null) throw new Error(`invalid URL: ${text} (expected: nats://a:4222,b:4222,c:4222/GROUP)`);
  const [, scheme, login = "", hosts, group, query = ""] = match;
  if (!GROUP.test(group!))
    throw new Error(`invalid group: "${group}" (letters, digits, - and _, 32 at most)`);
  const servers = hosts!.split(",").map((host) => (/:\d+$/.test(host) ? host : `${host}:4222`));
  const options = new URLSearchParams(query);
  for (const key of options.keys())
    if (key !== "creds") throw new Error(`unknown parameter in ${text}: ${key} (only creds=FILE is allowed)`);
  const [, user = "", password = ""] = /^([^:]*):?(.*)$/s.exec(login)!.map(decodeURIComponent);
  return {
    servers,
    group: group!,
    tls: scheme !== "nats",
    credentials: options.get("creds") ?? "",
    user,
    password,
  };
}
