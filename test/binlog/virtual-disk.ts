// In-memory disk that forgets what was not synced: writes and names are lost, torn, reordered or
// corrupted.

import type { BackgroundSync, Disk, EndedSync, Handle } from "../../src/binlog/disk/disk.ts";
import type { SeededRandom } from "../support/seeded-random.ts";

const SECTOR_BYTES = 512;

type PendingChange = { at: number; bytes: Uint8Array } | { truncate: number };

/** Bytes that grow; of `content` the first `bytes` count. */
interface Content {
  content: Uint8Array;
  bytes: number;
}

interface VirtualFile extends Content {
  durable: Content;
  /** Changes that `durable` lacks. */
  pending: PendingChange[];
  /** `content` may have been changed in place. */
  wasLent: boolean;
}

/** What a power cut leaves of changes that were not synced: of each sector, by chance or not. */
export const Survival = { Nothing: 0, Everything: 1, Sectors: 2, Garbage: 3 } as const;
export type Survival = (typeof Survival)[keyof typeof Survival];

/** A file as a picture shows it. */
interface FileFigures {
  readonly name: string;
  readonly bytes: number;
  /** Bytes written and not synced. */
  readonly pendingBytes: number;
}

function fileOf(content: Uint8Array): VirtualFile {
  const durable = { content: content.slice(), bytes: content.length };
  return { content: content.slice(), bytes: content.length, durable, pending: [], wasLent: false };
}

type NameChange = { folder: string; apply: (names: Map<string, VirtualFile>) => void };

function systemError(code: string, call: string): Error {
  return Object.assign(new Error(`${code}: ${call}`), { code });
}

function folderOf(name: string): string {
  return name.includes("/") ? name.slice(0, name.indexOf("/")) : "";
}

function write(file: Content, at: number, bytes: Uint8Array): void {
  const end = at + bytes.length;
  if (end > file.content.length) {
    const larger = new Uint8Array(Math.max(end, 2 * file.content.length));
    larger.set(file.content.subarray(0, file.bytes));
    file.content = larger;
  }
  if (at > file.bytes) file.content.fill(0, file.bytes, at);
  file.content.set(bytes, at);
  file.bytes = Math.max(file.bytes, end);
}

function apply(file: Content, change: PendingChange): void {
  if ("truncate" in change) file.bytes = Math.min(file.bytes, change.truncate);
  else write(file, change.at, change.bytes);
}

export class VirtualDisk implements Disk {
  readonly path = "/virtual";
  #names = new Map<string, VirtualFile>();
  #durableNames = new Map<string, VirtualFile>();
  #pendingNames: NameChange[] = [];
  readonly #handles = new Map<Handle, VirtualFile>();
  #nextHandle = 3;
  /** Bytes of all files together at most. */
  capacityBytes = Number.POSITIVE_INFINITY;
  /** Called before every call that may fail: throws to fail it. */
  fault: (call: string) => void = () => {};
  calls = 0;

  #call(call: string): void {
    this.calls++;
    this.fault(call);
  }

  names(folder = ""): string[] {
    const prefix = folder === "" ? "" : `${folder}/`;
    return [...this.#names.keys()]
      .filter((name) => folderOf(name) === folder)
      .map((name) => name.slice(prefix.length));
  }

  open(name: string, mode: "read" | "write" | "create"): Handle {
    this.#call("open");
    let file = this.#names.get(name);
    if (file === undefined) {
      if (mode !== "create") throw systemError("ENOENT", `open ${name}`);
      const made = fileOf(new Uint8Array(0));
      file = made;
      this.#rename(folderOf(name), (names) => names.set(name, made));
    }
    this.#handles.set(this.#nextHandle, file);
    return this.#nextHandle++;
  }

  #rename(folder: string, apply: (names: Map<string, VirtualFile>) => void): void {
    apply(this.#names);
    this.#pendingNames.push({ folder, apply });
  }

  #file(handle: Handle): VirtualFile {
    const file = this.#handles.get(handle);
    if (file === undefined) throw systemError("EBADF", String(handle));
    return file;
  }

  close(handle: Handle): void {
    this.#file(handle);
    this.#handles.delete(handle);
  }

  get openHandles(): number {
    return this.#handles.size;
  }

  bytes(handle: Handle): number {
    return this.#file(handle).bytes;
  }

  read(handle: Handle, into: Uint8Array, start: number, length: number, position: number): number {
    this.#call("read");
    const file = this.#file(handle);
    const end = Math.min(file.bytes, position + length);
    if (end <= position) return 0;
    into.set(file.content.subarray(position, end), start);
    return end - position;
  }

  write(handle: Handle, from: Uint8Array, start: number, length: number, position: number): void {
    this.#call("write");
    const file = this.#file(handle);
    const grows = Math.max(0, position + length - file.bytes);
    if (grows > 0 && this.usedBytes() + grows > this.capacityBytes) throw systemError("ENOSPC", "write");
    const bytes = from.slice(start, start + length);
    file.pending.push({ at: position, bytes });
    write(file, position, bytes);
  }

  truncate(handle: Handle, bytes: number): void {
    this.#call("truncate");
    const file = this.#file(handle);
    file.pending.push({ truncate: bytes });
    file.bytes = Math.min(file.bytes, bytes);
  }

  sync(handle: Handle): void {
    this.#call("sync");
    this.#syncFile(this.#file(handle));
  }

  #syncFile(file: VirtualFile): void {
    if (file.pending.length === 0) return;
    if (file.wasLent) file.durable = { content: file.content.slice(0, file.bytes), bytes: file.bytes };
    else for (const change of file.pending) apply(file.durable, change);
    file.pending = [];
  }

  /** Returns what makes durable, when it is called, all that is written to the file by now. */
  laterSync(name: string): () => void {
    const file = this.#names.get(name);
    if (file === undefined) throw systemError("ENOENT", name);
    const changes = [...file.pending];
    return () => {
      this.#call("sync");
      // What was synced or lost since is not there any more; the rest is still first.
      const covered = changes.filter((change) => file.pending.includes(change));
      if (file.wasLent) return this.#syncFile(file);
      for (const change of covered) apply(file.durable, change);
      file.pending = file.pending.slice(covered.length);
    };
  }

  rename(from: string, to: string): void {
    this.#call("rename");
    const file = this.#names.get(from);
    if (file === undefined) throw systemError("ENOENT", `rename ${from}`);
    this.#rename(folderOf(to), (names) => {
      names.delete(from);
      names.set(to, file);
    });
  }

  unlink(name: string): void {
    this.#call("unlink");
    if (!this.#names.has(name)) throw systemError("ENOENT", `unlink ${name}`);
    this.#rename(folderOf(name), (names) => names.delete(name));
  }

  makeFolder(): void {
    this.#call("makeFolder");
  }

  syncFolder(folder = ""): void {
    this.#call("syncFolder");
    const later: NameChange[] = [];
    for (const change of this.#pendingNames) {
      if (change.folder === folder) change.apply(this.#durableNames);
      else later.push(change);
    }
    this.#pendingNames = later;
  }

  /** Every file by its name, and how much of it a power cut may take. */
  files(): FileFigures[] {
    return [...this.#names].map(([name, { bytes, pending }]) => ({
      name,
      bytes,
      pendingBytes: pending.reduce((sum, change) => sum + ("bytes" in change ? change.bytes.length : 0), 0),
    }));
  }

  usedBytes(): number {
    let sum = 0;
    for (const file of new Set(this.#names.values())) sum += file.bytes;
    return sum;
  }

  /** The process dies: files stay as they are, handles are gone. */
  kill(): void {
    this.#handles.clear();
  }

  /** The power fails: of what was not synced, anything may have happened. */
  crash(random: SeededRandom, manner: Survival = random.below(4) as Survival): void {
    this.#handles.clear();
    const survives = () =>
      manner === Survival.Nothing ? false : manner === Survival.Everything ? true : random.chance(0.5);
    const names = new Map(this.#durableNames);
    for (const change of this.#pendingNames) if (survives()) change.apply(names);
    for (const file of new Set([
      ...names.values(),
      ...this.#durableNames.values(),
      ...this.#names.values(),
    ])) {
      const { durable } = file;
      const after = { content: durable.content.slice(0, durable.bytes), bytes: durable.bytes };
      for (const change of file.pending) {
        if ("truncate" in change) {
          if (survives()) after.bytes = Math.min(after.bytes, change.truncate);
        } else
          tear(after, change.at, change.bytes, survives, manner === Survival.Garbage ? random : undefined);
      }
      file.content = after.content;
      file.bytes = after.bytes;
      file.durable = { content: after.content.slice(0, after.bytes), bytes: after.bytes };
      file.pending = [];
      file.wasLent = false;
    }
    this.#names = names;
    this.#durableNames = new Map(names);
    this.#pendingNames = [];
  }

  /** The content of a file, to look at or to damage: a change in place is a change on the disk. */
  contentOf(name: string): Uint8Array {
    const file = this.#names.get(name);
    if (file === undefined) throw systemError("ENOENT", name);
    file.wasLent = true;
    return file.content.subarray(0, file.bytes);
  }

  /** Another disk with the same files, all durable. */
  clone(): VirtualDisk {
    const other = new VirtualDisk();
    for (const [name, file] of this.#names) other.put(name, file.content.subarray(0, file.bytes));
    return other;
  }

  put(name: string, content: Uint8Array): void {
    const file = fileOf(content);
    this.#names.set(name, file);
    this.#durableNames.set(name, file);
  }
}

/** Syncs that end by chance, in any later turn of the log. */
export class VirtualBackgroundSync implements BackgroundSync {
  readonly #disk: VirtualDisk;
  readonly #random: SeededRandom;
  /** In how many of the turns a sync under way ends. */
  readonly #endsIn: number;
  #finish: (() => void) | undefined;

  constructor(disk: VirtualDisk, random: SeededRandom) {
    this.#disk = disk;
    this.#random = random;
    this.#endsIn = random.pick([1, 0.5, 0.1, 0.01]);
  }

  begin(name: string): boolean {
    if (this.#random.chance(0.02)) return false;
    this.#finish = this.#disk.laterSync(name);
    return true;
  }

  take(): EndedSync | undefined {
    const finish = this.#finish;
    if (finish === undefined || !this.#random.chance(this.#endsIn)) return undefined;
    this.#finish = undefined;
    try {
      finish();
      return { tookMs: this.#random.below(30), error: undefined };
    } catch (error) {
      return { tookMs: 0, error };
    }
  }

  /** The virtual disk counts no space of removed files. */
  forget(): void {}

  close(): void {
    this.#finish = undefined;
  }
}

/** Applies a write sector by sector: each is there, is not, or is garbage. */
function tear(
  file: { content: Uint8Array; bytes: number },
  at: number,
  bytes: Uint8Array,
  survives: () => boolean,
  garbler: SeededRandom | undefined,
): void {
  for (let start = at; start < at + bytes.length; ) {
    const end = Math.min(at + bytes.length, (Math.floor(start / SECTOR_BYTES) + 1) * SECTOR_BYTES);
    const part = bytes.slice(start - at, end - at);
    if (garbler?.chance(0.1)) for (let i = 0; i < part.length; i++) part[i] = garbler.below(256);
    if (survives()) write(file, start, part);
    start = end;
  }
}
