// The systemd unit of the service on this machine: what the tools of the operator must know of it
// to judge files as the service will.

import { accessSync, constants, existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { userInfo } from "node:os";
import { basename, isAbsolute, join, relative } from "node:path";

const UNIT = "runnerbean.service";
/** Where units lie; the first one that has it wins. */
const FOLDERS = [
  "/etc/systemd/system",
  "/run/systemd/system",
  "/usr/lib/systemd/system",
  "/lib/systemd/system",
];

export interface ServiceUnit {
  readonly user: string | undefined;
  /** The file of --config. */
  readonly config: string | undefined;
  /** Its limit of open files; undefined for the system's. */
  readonly descriptors: number | undefined;
  /** Folders that it may write to; undefined for all. */
  readonly writable: readonly string[] | undefined;
}

/** Returns the unit with its drop-ins; undefined if this machine has none. */
export function serviceUnit(folders: readonly string[] = FOLDERS): ServiceUnit | undefined {
  const text = folders.map((folder) => textOf(join(folder, UNIT))).find((each) => each !== "");
  if (text === undefined) return undefined;
  // Of drop-ins with one name, that of the first folder wins; all take effect by their names.
  const dropIns = new Map(folders.toReversed().flatMap((folder) => dropInsIn(join(folder, `${UNIT}.d`))));
  const later = [...dropIns].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, path]) => textOf(path));
  const values = valuesOf([text, ...later].join("\n"));
  const last = (key: string): string | undefined => values.get(key)?.at(-1);
  const list = (key: string): string[] => (values.get(key) ?? []).flatMap((each) => each.split(/\s+/));
  const isStrict = last("ProtectSystem") === "strict";
  const under = (root: string, key: string): string[] => list(key).map((name) => join(root, name));
  return {
    user: last("User"),
    config: /--config[ =](\S+)/.exec(last("ExecStart") ?? "")?.[1],
    descriptors: Number(last("LimitNOFILE")?.split(":").at(-1)) || undefined,
    writable: isStrict
      ? [
          ...under("/var/lib", "StateDirectory"),
          ...under("/var/cache", "CacheDirectory"),
          ...under("/run", "RuntimeDirectory"),
          ...list("ReadWritePaths").map((path) => path.replace(/^[-+]+/, "")),
        ]
      : undefined,
  };
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function dropInsIn(folder: string): [name: string, path: string][] {
  try {
    return readdirSync(folder)
      .filter((name) => name.endsWith(".conf"))
      .map((name) => [name, join(folder, name)]);
  } catch {
    return [];
  }
}

/** Returns the values of each key. As in systemd, an empty one removes those before it. */
function valuesOf(text: string): Map<string, string[]> {
  const values = new Map<string, string[]>();
  for (const [, key, value] of text.matchAll(/^[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(.*?)[ \t]*$/gm))
    values.set(key!, value === "" ? [] : [...(values.get(key!) ?? []), value!]);
  return values;
}

/** Whether this process runs as the user; without one, the server has that of this process. */
export function isUser(user: string | undefined): boolean {
  if (user === undefined) return true;
  try {
    const { uid, username } = userInfo();
    return user === username || user === `${uid}`;
  } catch {
    // In a container, a number needs no name.
    return user === `${process.getuid!()}`;
  }
}

const LOG_FILE = /^(?:runnerbean\.\d+\.log|lock)$/;
/** Beanstalkd makes its files without a right to write. A takeover only reads and renames them. */
const BEANSTALKD_FILE = /^binlog\.\d+$/;

/** Returns the rights that a server needs for a file in the directory of its log. */
function neededOf(name: string): number {
  if (LOG_FILE.test(name)) return constants.R_OK | constants.W_OK;
  return BEANSTALKD_FILE.test(name) ? constants.R_OK : constants.F_OK;
}

/**
 * Returns why a server as this user can't write its log into a directory, and what to do; undefined
 * if it can. With a unit, also what systemd forbids the service.
 */
export function directoryFault(
  path: string,
  unit: ServiceUnit | undefined,
): { found: string; todo: string } | undefined {
  if (unit !== undefined && isReadOnly(unit, path))
    return {
      found: `${path} is read-only for the service (ProtectSystem=strict in its unit)`,
      todo: `systemctl edit runnerbean, and add\n  [Service]\n  ReadWritePaths=${path}`,
    };
  const user = unit?.user ?? "USER";
  try {
    if (!statSync(path).isDirectory())
      return { found: `${path} is not a directory`, todo: "name a directory" };
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK);
    for (const name of readdirSync(path).filter((each) => neededOf(each) !== constants.F_OK)) {
      const file = join(path, name);
      // Compaction may have removed it.
      if (existsSync(file)) accessSync(file, neededOf(name));
    }
    return undefined;
  } catch (error) {
    const { code = "", path: at = path } = error as NodeJS.ErrnoException;
    if (code === "ENOENT")
      return { found: `${path} does not exist`, todo: `install -d -o ${user} -m 700 ${path}` };
    return {
      found: `the server's user can't ${BEANSTALKD_FILE.test(basename(at)) ? "read" : "write to"} ${at} (${code})`,
      todo: code === "EROFS" ? "its file system is read-only" : `chown -R ${user}: ${path}`,
    };
  }
}

function isReadOnly({ writable }: ServiceUnit, path: string): boolean {
  return writable !== undefined && !writable.some((root) => isWithin(root, path));
}

function isWithin(root: string, path: string): boolean {
  const way = relative(root, path);
  return !way.startsWith("..") && !isAbsolute(way);
}

/** Returns the free and the whole bytes of the file system that has the path. */
export function spaceOf(path: string): { free: number; whole: number; isMemory: boolean } {
  const { bavail, blocks, bsize, type } = statfsSync(path);
  const [TMPFS, RAMFS] = [0x01021994, 0x858458f6];
  return { free: bavail * bsize, whole: blocks * bsize, isMemory: type === TMPFS || type === RAMFS };
}
