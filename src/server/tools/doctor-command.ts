// `runnerbean doctor`: checks what a server needs of this machine, and says what to do. It changes
// nothing, and works beside a running server.

import { execFileSync } from "node:child_process";
import {
  closeSync,
  existsSync,
  fdatasyncSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { release } from "node:os";
import { join } from "node:path";
import { Command } from "commander";
import { isSince } from "../../base/text.ts";
import { print } from "../../cli/output.ts";
import { sizeText } from "../../config/setting.ts";
import { readGroupUrl } from "../../replica/group-url.ts";
import { switchUser } from "../lifecycle/process.ts";
import { probeAddress } from "../listeners/listen-address.ts";
import { hostAndPort, portNumber } from "../options/listener-settings.ts";
import type { Exit, Options } from "../options/options.ts";
import { messageOf, parseOptions } from "../options/options.ts";
import { PROGRAM } from "../options/program.ts";
import { configFaults } from "./config-command.ts";
import { logServerOf } from "./replica-command.ts";
import { directoryFault, isUser, type ServiceUnit, serviceUnit, spaceOf } from "./service-unit.ts";

const Status = { ok: 0, warn: 1, fail: 2 } as const;
type Status = keyof typeof Status;

interface Finding {
  readonly check: string;
  readonly status: Status;
  readonly found: string;
  /** The next step; undefined if there is nothing to do. */
  readonly todo?: string;
}

const ok = (check: string, found: string): Finding => ({ check, status: "ok", found });
const warn = (check: string, found: string, todo: string): Finding => ({
  check,
  status: "warn",
  found,
  todo,
});
const fail = (check: string, found: string, todo: string): Finding => ({
  check,
  status: "fail",
  found,
  todo,
});

export function doctorCommand(): Command {
  return new Command("doctor")
    .description(
      "check kernel, io_uring, limits, log directory, ports, clock and log servers; exit with 0 if all is well, " +
        "1 after warnings, 2 after failures. After --, give flags of the server to check them, too",
    )
    .argument("[flags...]", "flags of the server")
    .option("--config <file>", "the server's configuration (default: that of the service)")
    .option("--json", "print one JSON object per line")
    .action(async (flags: string[], { config, json }: { config?: string; json?: true }) => {
      let worst = 0;
      for await (const finding of findings(flags, config)) {
        worst = Math.max(worst, Status[finding.status]);
        print(json === true ? JSON.stringify(finding) : textOf(finding));
      }
      process.exitCode = worst;
    });
}

const textOf = ({ check, status, found, todo }: Finding): string =>
  `${status.padEnd(5)} ${check.padEnd(12)} ${found}${todo === undefined ? "" : `\n${" ".repeat(19)}${todo.replaceAll("\n", `\n${" ".repeat(19)}`)}`}`;

async function* findings(flags: readonly string[], config: string | undefined): AsyncGenerator<Finding> {
  const unit = serviceUnit();
  const file = config ?? (flags.length === 0 ? unit?.config : undefined);
  const args = file === undefined ? flags : [...flags, "--config", file];
  const options = parseOptions(args, PROGRAM, process.env);
  yield kernel();
  yield await ioUring();
  yield descriptors(unit);
  const locked = lockedMemory();
  if (locked !== undefined) yield locked;
  yield clock();
  if ("exitCode" in options) {
    yield configuration(options, file);
    return;
  }
  for (const [host, port] of addressesOf(options)) yield await portOf(host, port);
  if (options.replicate !== undefined)
    for (const server of readGroupUrl(options.replicate).servers)
      yield await logServer(options.replicate, server);
  yield* asService(unit, flags, file, options);
}

/** What the service's user decides comes last: there is no way back to root. */
function* asService(
  unit: ServiceUnit | undefined,
  flags: readonly string[],
  file: string | undefined,
  options: Options,
): Generator<Finding> {
  const isService = file !== undefined && file === unit?.config;
  const user = options.user ?? (isService ? unit?.user : undefined);
  if (user !== undefined && process.getuid!() === 0) {
    try {
      switchUser(user);
    } catch (error) {
      yield fail("user", (error as Error).message, "create this user, or name another one with -u");
      return;
    }
  } else if (user !== undefined && !isUser(user)) {
    yield warn("files", `${user} serves, and you can't check what ${user} may do`, "run this as root");
    return;
  }
  const faults = configFaults(file, flags);
  if (faults !== "") yield fail("config", faults, "correct this, then check again");
  else if (file !== undefined) yield ok("config", `${file} is valid`);
  if (options.binlog === undefined)
    yield warn("log", "none: a restart loses all jobs", "set binlog, or -b, to keep jobs");
  else yield* logDirectory(options.binlog, isService ? unit : undefined);
}

function configuration(exit: Exit, file: string | undefined): Finding {
  const todo = `${PROGRAM} --help shows all flags, ${PROGRAM} config example all settings`;
  const message = messageOf(exit);
  return fail("config", file === undefined || message.includes(file) ? message : `${file}: ${message}`, todo);
}

// --- kernel and limits ------------------------------------------------------------------------

const IO_URING_SINCE = [6, 18] as const;

function kernel(): Finding {
  const found = `Linux ${release()}`;
  if (isSince(release(), IO_URING_SINCE)) return ok("kernel", `${found}: io_uring by default`);
  return ok(
    "kernel",
    `${found}: libuv by default; --transport io_uring needs 6.1, and is the default from 6.18 on`,
  );
}

async function ioUring(): Promise<Finding> {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    const { closeDescriptor, map, setup } = await import("../../uring/kernel.ts");
    closeDescriptor(setup(8, map(4096)));
    return ok("io_uring", "permitted");
  } catch (error) {
    const found = `not available: ${(error as Error).message}`;
    return warn(
      "io_uring",
      found,
      "the server uses libuv instead, with a quarter more CPU; in a container, permit io_uring in its seccomp profile",
    );
  } finally {
    process.emitWarning = emitWarning;
  }
}

const DESCRIPTORS_MIN = 10_000;

function descriptors(unit: ServiceUnit | undefined): Finding {
  const shell = limitOf("Max open files");
  const limit = unit?.descriptors ?? shell;
  const whose = unit?.descriptors === undefined ? "" : " for the service";
  const found = `${limit} open files${whose}, so about as many connections`;
  if (limit >= DESCRIPTORS_MIN) return ok("limits", found);
  return warn("limits", found, "raise LimitNOFILE= in the unit, or ulimit -n in a shell, to 65536");
}

/** The hard limit, to which Node raises its own. */
function limitOf(name: string): number {
  const line = readText("/proc/self/limits")
    .split("\n")
    .find((each) => each.startsWith(name));
  const [, hard = "unlimited"] = line?.slice(name.length).trim().split(/\s+/) ?? [];
  return hard === "unlimited" ? Number.POSITIVE_INFINITY : Number(hard);
}

/** Since Linux 5.12, the rings of io_uring no longer count as locked memory. */
function lockedMemory(): Finding | undefined {
  const limit = limitOf("Max locked memory");
  if (isSince(release(), [5, 12]) || limit >= 8 << 20) return undefined;
  return warn(
    "limits",
    `${limit} bytes of locked memory`,
    "io_uring needs 8 MiB on this kernel: LimitMEMLOCK=8M",
  );
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

// --- clock ------------------------------------------------------------------------------------

function clock(): Finding {
  if (existsSync("/run/systemd/timesync/synchronized"))
    return ok("clock", "synchronised by systemd-timesyncd");
  let answer = "";
  try {
    const args = ["show", "-p", "NTPSynchronized", "--value"];
    answer = execFileSync("timedatectl", args, {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
      timeout: 5000,
    });
  } catch {
    // No systemd: a container has the clock of its host.
  }
  if (answer.trim() === "yes") return ok("clock", "synchronised");
  const found = answer === "" ? "not known to be synchronised: no systemd here" : "not synchronised";
  if (answer === "") return ok("clock", found);
  return warn(
    "clock",
    found,
    "schedules and delays after a restart follow it: systemctl enable --now systemd-timesyncd, or install chrony",
  );
}

// --- ports ------------------------------------------------------------------------------------

function* addressesOf({ listen, port, listeners, http, httpAlso }: Options): Generator<[string, number]> {
  // The kernel picks a free one for port 0.
  if (listen !== "none" && !listen.startsWith("unix:") && portNumber(port) > 0)
    yield [listen, portNumber(port)];
  for (const { address } of listeners) {
    const tcp = hostAndPort(address);
    if (tcp !== undefined) yield [tcp.host, portNumber(tcp.port)];
  }
  for (const address of [...(http === undefined ? [] : [http]), ...httpAlso.map((also) => also.address)])
    if ("port" in address) yield [address.host, address.port];
}

async function portOf(host: string, port: number): Promise<Finding> {
  const where = `${host}:${port}`;
  try {
    await probeAddress(host, port);
    return ok("port", `${where} is free`);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code !== "EADDRINUSE") {
      const todo =
        code === "EACCES"
          ? "ports below 1024 need root: see -u, or socket activation"
          : "choose another address with -l";
      return fail("port", message, todo);
    }
    const holder = holderOf(port);
    const who = holder === undefined ? "another process" : `${holder.name} (process ${holder.pid})`;
    // systemd holds the port of runnerbean.socket.
    if (holder?.name === PROGRAM || holder?.name === "systemd") return ok("port", `${where}: ${who} listens`);
    const found = `${where}: ${who} listens`;
    if (holder?.name === "beanstalkd")
      return fail(
        "port",
        found,
        "to take its place: docs/replace-beanstalkd.md; or choose another port with -p",
      );
    const todo =
      holder === undefined
        ? `ss -ltnp 'sport = :${port}' shows which, as root`
        : "stop it, or choose another port with -p";
    return fail("port", found, todo);
  }
}

/** Returns the process that listens on a port, if this user may know it. */
function holderOf(port: number): { pid: number; name: string } | undefined {
  const hexPort = port.toString(16).toUpperCase().padStart(4, "0");
  const isListening = new RegExp(`^ *\\d+: [0-9A-F]+:${hexPort} \\S+ 0A (?:\\S+ +){5}(\\d+)`, "gm");
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(readText).join("\n");
  const sockets = new Set(Array.from(tables.matchAll(isListening), ([, inode]) => `socket:[${inode}]`));
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name)))
    if (hasOneOf(sockets, pid)) return { pid: Number(pid), name: readText(`/proc/${pid}/comm`).trim() };
  return undefined;
}

function hasOneOf(sockets: ReadonlySet<string>, pid: string): boolean {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).some((descriptor) => sockets.has(readlinkSync(join(folder, descriptor))));
  } catch {
    // Another user's, or it has ended.
    return false;
  }
}

// --- the log's directory ----------------------------------------------------------------------

const FREE_BYTES_MIN = 64 << 20;
const FREE_BYTES_FEW = 1 << 30;
const SYNCS = 20;
/** A slow disk gets fewer than that. */
const SYNCS_MS_MAX = 5000;
const SLOW_SYNC_MS = 10;

function* logDirectory(path: string, unit: ServiceUnit | undefined): Generator<Finding> {
  const fault = directoryFault(path, unit);
  if (fault !== undefined) {
    yield fail("log", fault.found, fault.todo);
    return;
  }
  const { free, whole, isMemory } = spaceOf(path);
  const space = `${sizeText(roundedBytes(free))} of ${sizeText(roundedBytes(whole))} free in ${path}`;
  if (free < FREE_BYTES_MIN) yield fail("disk", space, "make room: the server refuses puts on a full disk");
  else if (isMemory)
    yield warn(
      "disk",
      `${path} is in memory: a restart of the machine loses all jobs`,
      "choose a directory on a disk",
    );
  else if (free < FREE_BYTES_FEW)
    yield warn("disk", space, "make room soon: the server refuses puts on a full disk");
  else yield ok("disk", space);
  yield syncs(path);
}

function syncs(path: string): Finding {
  let times: readonly number[];
  try {
    times = syncTimes(path);
  } catch (error) {
    const todo = "the server refuses puts until it can write there";
    return fail("fsync", `cannot write to ${path}: ${(error as Error).message}`, todo);
  }
  const median = times[times.length >> 1]!;
  const longest = times.at(-1)!.toFixed(1);
  const found = `fsync takes ${median.toFixed(1)} ms, at most ${longest} ms of ${times.length}`;
  if (median <= SLOW_SYNC_MS) return ok("fsync", found);
  return warn(
    "fsync",
    found,
    "each reply waits that long with -f 0: use a local SSD, or accept a short loss after a power cut with -f 50ms",
  );
}

const roundedBytes = (bytes: number): number => {
  const unit = bytes >= 1 << 30 ? 1 << 30 : 1 << 20;
  return Math.floor(bytes / unit) * unit;
};

/** Writes and syncs a file without a name, as the log does. Returns the sorted times in ms. */
function syncTimes(path: string): number[] {
  const name = join(path, `.doctor-${process.pid}`);
  const file = openSync(name, "wx", 0o600);
  try {
    unlinkSync(name);
    const block = Buffer.alloc(4096, 1);
    const times: number[] = [];
    const endsAtMs = performance.now() + SYNCS_MS_MAX;
    while (times.length < SYNCS && (times.length === 0 || performance.now() < endsAtMs)) {
      writeSync(file, block);
      const beganAtMs = performance.now();
      fdatasyncSync(file);
      times.push(performance.now() - beganAtMs);
    }
    return times.sort((a, b) => a - b);
  } finally {
    closeSync(file);
  }
}

// --- log servers ------------------------------------------------------------------------------

async function logServer(url: string, server: string): Promise<Finding> {
  const { found, problem } = await logServerOf(readGroupUrl(url), server);
  if (problem === undefined) return ok("log server", found);
  return fail(
    "log server",
    problem,
    `${PROGRAM} replica check ${url.replace(/\/\/[^/@]*@/, "//")} says more`,
  );
}
