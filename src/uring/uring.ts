// One io_uring instance of one thread: submissions in, completions out, memory shared with the
// kernel.
//
// The kernel defines the layout (linux/io_uring.h). This side writes the tail of the submission
// ring and the head of the completion ring, the kernel writes the other two. All are accessed with
// Atomics, which order the entries before them. The kernel does nothing between two calls of
// `enter` (DEFER_TASKRUN), so completions appear only during a call.

import { release } from "node:os";
import { assert } from "../base/assert.ts";
import { copyBytes } from "../base/bytes.ts";
import { isSince } from "../base/text.ts";
import {
  type Address,
  addressBehind,
  closeDescriptor,
  enter,
  epollControl,
  epollCreate,
  epollLook,
  halves,
  KernelError,
  type Mapping,
  map,
  register,
  setup,
} from "./kernel.ts";

// The buffers into which the kernel receives. The kernel uses all of them in turn. So only a few
// are offered at first, and more whenever the kernel runs out: with few connections, the buffers
// stay in the caches.

export const BUFFER_BYTES = 16 * 1024;
/**
 * Maximum bytes that one receive delivers. The kernel ends a multishot receive once it has brought
 * BUFFER_BYTES, but by then its last buffer may be full.
 */
export const RECEIVE_BYTES_MAX: number = 2 * BUFFER_BYTES - 1;
/** The id that the kernel knows them by. */
const BUFFER_GROUP = 0;
/** A power of two. */
const BUFFERS_MAX = 512;
/** Buffers offered at the start, and buffers added whenever more are needed. */
const BUFFERS_STEP = 64;
/** Distance between buffers, so that their first bytes don't compete for the same cache lines. */
const STRIDE_BYTES = BUFFER_BYTES + 192;
const ENTRY_BYTES = 16;
const REGISTER_PBUF_RING = 22;

class ReceiveBuffers {
  /** A view of each buffer that was offered. */
  readonly views: Uint8Array[] = [];
  readonly #memory: Mapping;
  readonly #tails: Uint16Array;
  readonly #entries: Int32Array;
  #tail = 0;
  /** The two halves of each buffer's address. */
  readonly #addresses = new Int32Array(2 * BUFFERS_MAX);

  /** Registers them with a ring. Throws KernelError if the kernel refuses. */
  constructor(descriptor: number) {
    this.#memory = map(BUFFERS_MAX * STRIDE_BYTES);
    const ring = map(BUFFERS_MAX * ENTRY_BYTES);
    this.#tails = new Uint16Array(ring.buffer);
    this.#entries = new Int32Array(ring.buffer);
    const registration = map(40);
    const fields = new BigUint64Array(registration.buffer, 0, 5);
    fields[0] = ring.pointer;
    fields[1] = BigInt(BUFFERS_MAX) | (BigInt(BUFFER_GROUP) << 32n);
    register(descriptor, REGISTER_PBUF_RING, registration, 1);
    this.offerMore();
    this.publish();
  }

  /** Offers further buffers, if there are any. */
  offerMore(): void {
    const end = Math.min(this.views.length + BUFFERS_STEP, BUFFERS_MAX);
    for (let buffer = this.views.length; buffer < end; buffer++) {
      const at = buffer * STRIDE_BYTES;
      this.views.push(new Uint8Array(this.#memory.buffer, at, BUFFER_BYTES));
      const address = halves(this.#memory.pointer + BigInt(at));
      this.#addresses.set([address.low, address.high], 2 * buffer);
      this.offer(buffer);
    }
  }

  /** Gives a buffer back to the kernel, with the next `publish`. */
  offer(buffer: number): void {
    assert(buffer < this.views.length, "a returned buffer was offered");
    const entry = (this.#tail++ & (BUFFERS_MAX - 1)) * (ENTRY_BYTES / 4);
    const words = this.#entries;
    words[entry] = this.#addresses[2 * buffer]!;
    words[entry + 1] = this.#addresses[2 * buffer + 1]!;
    words[entry + 2] = BUFFER_BYTES;
    // The upper half of the first entry's last word is the ring's tail.
    this.#tails[(entry << 1) + 6] = buffer;
  }

  publish(): void {
    Atomics.store(this.#tails, 7, this.#tail & 0xffff);
  }
}

/** The operation of a submission (enum io_uring_op). */
const UringOp = {
  PollAdd: 6,
  SendMsg: 9,
  RecvMsg: 10,
  AsyncCancel: 14,
  Send: 26,
  Recv: 27,
  MessageRing: 40,
} as const;

const SQE_BYTES = 64;
const SQE_WORDS = SQE_BYTES / 4;
const CQE_BYTES = 16;
const PARAMS_BYTES = 120;
/** Offsets in io_uring_params, in int32 words: features, submission ring, completion ring. */
const FEATURES = 5;
const SQ_OFFSETS = 10;
const CQ_OFFSETS = 20;
const OFFSET_SQES = 0x10000000n;

const SETUP_CQSIZE = 1 << 3;
const SETUP_CLAMP = 1 << 4;
const SETUP_SUBMIT_ALL = 1 << 7;
const SETUP_SINGLE_ISSUER = 1 << 12;
const SETUP_DEFER_TASKRUN = 1 << 13;

const ENTER_GETEVENTS = 1 << 0;
const ENTER_EXT_ARG = 1 << 3;
/** Since Linux 6.15: a waiting thread counts as idle instead of waiting for a disk. */
const ENTER_NO_IOWAIT = 1 << 7;
const FEATURE_NO_IOWAIT = 1 << 17;

/** Flag of the submission ring: some completions found no room in the completion ring. */
const SQ_CQ_OVERFLOW = 1 << 1;

const REGISTER_IOWQ_MAX_WORKERS = 19;
const BUFFER_SELECT = 1 << 5;
const RECV_POLL_FIRST = 1 << 0;
const RECV_MULTISHOT = 1 << 1;
const CQE_SKIP_SUCCESS = 1 << 6;
const CQE_BUFFER = 1 << 0;
/** Flag of a completion: its receive continues, and other completions follow. */
export const CQE_MORE: number = 1 << 1;
/** Flag of a completion: more follows the received bytes, further bytes or the end. */
export const CQE_SOCK_NONEMPTY: number = 1 << 2;
const CQE_BUFFER_SHIFT = 16;
const MSG_NOSIGNAL = 0x4000;
/** The kernel itself continues after a partial send. */
const MSG_WAITALL = 0x100;
const MSG_DONTWAIT = 0x40;
const POLLIN = 0x1;
/** The kernel adds POLLERR and POLLHUP. */
const POLLRDHUP = 0x2000;

const EINTR = 4;
const EAGAIN = 11;
const EBUSY = 16;
const ETIME = 62;
const ENOBUFS = 105;

/** Entries of the submission ring. A turn with more of them submits in between. */
const ENTRIES = 1024;
/** Kernel threads of each kind for this ring. None ever waits: our operations don't block. */
const WORKERS_MAX = 1;

/**
 * Whether receives may be multishot. This needs Linux 6.17, which can limit the bytes of such a
 * receive: without a limit, a client could fill memory while it is paused. RUNNERBEAN_RECEIVES=once
 * is for tests.
 */
export const MULTISHOT_RECEIVES: boolean =
  isSince(release(), [6, 17]) && process.env["RUNNERBEAN_RECEIVES"] !== "once";

/**
 * Takes a completion: its submission's two words, the result (bytes or -errno), the flags, and the
 * buffer that was received into.
 */
type OnCompletion = (
  low: number,
  high: number,
  result: number,
  flags: number,
  bytes: Uint8Array | undefined,
) => void;

export class Uring {
  readonly descriptor: number;
  /** The words of both rings. */
  readonly #words: Int32Array;
  readonly #sqes: Int32Array;
  readonly #sqTail: number;
  readonly #sqHead: number;
  readonly #sqFlags: number;
  readonly #sqMask: number;
  readonly #sqEntries: number;
  readonly #cqHead: number;
  readonly #cqTail: number;
  readonly #cqMask: number;
  readonly #cqes: number;
  /** Submissions written. The kernel has seen those before `#submitted`. */
  #tail = 0;
  #submitted = 0;
  /** Submissions that a kernel short of memory did not take: in order, and their number. */
  #waiting: Int32Array = new Int32Array(0);
  #waitingCount = 0;
  /** The location of the last `#entry`: the ring's entries or the waiting ones. */
  #target: Int32Array;
  readonly #call: typeof enter;
  #head = 0;
  readonly #buffers: ReceiveBuffers;
  readonly #waitArgument: Mapping;
  /** The time in it, as words. */
  readonly #waitTime: Int32Array;
  readonly #waitFlags: number;

  /** Throws KernelError if the kernel refuses. `call` replaces the system call in tests. */
  constructor(call: typeof enter = enter) {
    this.#call = call;
    const params = map(PARAMS_BYTES);
    const words = new Int32Array(params.buffer, 0, PARAMS_BYTES / 4);
    words[1] = ENTRIES * 4;
    words[2] = SETUP_CQSIZE | SETUP_CLAMP | SETUP_SUBMIT_ALL | SETUP_SINGLE_ISSUER | SETUP_DEFER_TASKRUN;
    this.descriptor = setup(ENTRIES, params);
    const [sqEntries, cqEntries] = [words[0]!, words[1]!];
    const sqArray = words[SQ_OFFSETS + 6]!;
    const cqes = words[CQ_OFFSETS + 5]!;
    const ringBytes = Math.max(sqArray + sqEntries * 4, cqes + cqEntries * CQE_BYTES);
    // Since Linux 5.4, one mapping contains both rings.
    this.#words = new Int32Array(map(align(ringBytes), this.descriptor).buffer);
    this.#sqes = new Int32Array(map(sqEntries * SQE_BYTES, this.descriptor, OFFSET_SQES).buffer);
    this.#target = this.#sqes;
    this.#sqHead = words[SQ_OFFSETS]! >> 2;
    this.#sqTail = words[SQ_OFFSETS + 1]! >> 2;
    this.#sqFlags = words[SQ_OFFSETS + 4]! >> 2;
    this.#sqMask = sqEntries - 1;
    this.#sqEntries = sqEntries;
    this.#cqHead = words[CQ_OFFSETS]! >> 2;
    this.#cqTail = words[CQ_OFFSETS + 1]! >> 2;
    this.#cqMask = cqEntries - 1;
    this.#cqes = cqes >> 2;
    for (let entry = 0; entry < sqEntries; entry++) this.#words[(sqArray >> 2) + entry] = entry;
    this.#waitArgument = waitArgument();
    this.#waitTime = new Int32Array(this.#waitArgument.buffer, 24, 4);
    const canIdle = (words[FEATURES]! & FEATURE_NO_IOWAIT) !== 0;
    this.#waitFlags = ENTER_GETEVENTS | ENTER_EXT_ARG | (canIdle ? ENTER_NO_IOWAIT : 0);

    const workers = map(8);
    new Int32Array(workers.buffer, 0, 2).fill(WORKERS_MAX);
    register(this.descriptor, REGISTER_IOWQ_MAX_WORKERS, workers, 2);

    this.#buffers = new ReceiveBuffers(this.descriptor);
  }

  // --- submissions -------------------------------------------------------------------------------

  /** Waits once until a descriptor is readable. */
  pollIn(descriptor: number, low: number, high: number): void {
    const at = this.#entry(UringOp.PollAdd, descriptor, low, high);
    this.#target[at + 7] = POLLIN;
  }

  /** Waits once until the other side has ended or an error has occurred. */
  pollEnd(descriptor: number, low: number, high: number): void {
    const at = this.#entry(UringOp.PollAdd, descriptor, low, high);
    this.#target[at + 7] = POLLRDHUP;
  }

  /**
   * Receives into buffers of the kernel's choice; `likely` means that bytes should be there. A
   * `multishot` receive, allowed only with MULTISHOT_RECEIVES, ends after BUFFER_BYTES to
   * RECEIVE_BYTES_MAX bytes. It may hide an end or an error that comes with bytes: see `pollEnd`.
   */
  receive(descriptor: number, likely: boolean, multishot: boolean, low: number, high: number): void {
    const flags = (likely ? 0 : RECV_POLL_FIRST) | (multishot ? RECV_MULTISHOT : 0);
    const at = this.#entry(UringOp.Recv | (BUFFER_SELECT << 8) | (flags << 16), descriptor, low, high);
    this.#target[at + 10] = BUFFER_GROUP;
    this.#target[at + 11] = multishot ? BUFFER_BYTES : 0;
  }

  /** Receives until a message's parts are full, the other side has ended, or an error occurs. */
  receiveMessage(
    descriptor: number,
    addressLow: number,
    addressHigh: number,
    likely: boolean,
    low: number,
    high: number,
  ): void {
    const pollFirst = likely ? 0 : RECV_POLL_FIRST << 16;
    const at = this.#entry(UringOp.RecvMsg | pollFirst, descriptor, low, high);
    const sqes = this.#target;
    sqes[at + 4] = addressLow;
    sqes[at + 5] = addressHigh;
    sqes[at + 6] = 1;
    sqes[at + 7] = MSG_WAITALL;
  }

  /**
   * Sends as much of `length` bytes from an address as there is room for. The bytes must not change
   * until the completion, which reports how many have left, or EAGAIN. The kernel does not wait for
   * room: see RoomWatch.
   */
  send(
    descriptor: number,
    addressLow: number,
    addressHigh: number,
    length: number,
    low: number,
    high: number,
  ): void {
    const at = this.#entry(UringOp.Send, descriptor, low, high);
    const sqes = this.#target;
    sqes[at + 4] = addressLow;
    sqes[at + 5] = addressHigh;
    sqes[at + 6] = length;
    sqes[at + 7] = MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT;
  }

  /**
   * Sends the parts of a message (MessageSlots). The kernel waits for room in between, but not for
   * ever: one of its workers makes the last attempt and reports how many bytes have left, or
   * EAGAIN.
   */
  sendMessage(descriptor: number, addressLow: number, addressHigh: number, low: number, high: number): void {
    const at = this.#entry(UringOp.SendMsg, descriptor, low, high);
    const sqes = this.#target;
    sqes[at + 4] = addressLow;
    sqes[at + 5] = addressHigh;
    sqes[at + 6] = 1;
    sqes[at + 7] = MSG_NOSIGNAL | MSG_WAITALL;
  }

  /**
   * Sends like `send`, but a success posts no completion. EAGAIN, errors and partial sends are
   * among the completions of the call that submits it. Returns its position, for `look`, or
   * -1 without any effect if the ring is full.
   */
  sendNow(
    descriptor: number,
    addressLow: number,
    addressHigh: number,
    length: number,
    low: number,
    high: number,
  ): number {
    if (this.#tail - this.#submitted === this.#sqEntries || this.#waitingCount > 0) return -1;
    const at = this.#entry(UringOp.Send | (CQE_SKIP_SUCCESS << 8), descriptor, low, high);
    const sqes = this.#target;
    sqes[at + 4] = addressLow;
    sqes[at + 5] = addressHigh;
    sqes[at + 6] = length;
    sqes[at + 7] = MSG_NOSIGNAL | MSG_WAITALL | MSG_DONTWAIT;
    return this.#tail;
  }

  /** Completes the operation with these two words at once, with ECANCELED unless it is done. */
  cancel(targetLow: number, targetHigh: number, low: number, high: number): void {
    const at = this.#entry(UringOp.AsyncCancel, -1, low, high);
    this.#target[at + 4] = targetLow;
    this.#target[at + 5] = targetHigh;
  }

  /**
   * Posts a completion with these two words to another ring, at once. It posts one to this ring
   * only on failure. Returns false if the kernel takes no submission now; the completion then
   * appears later.
   */
  tell(ring: number, low: number, high: number): boolean {
    const at = this.#entry(UringOp.MessageRing | (CQE_SKIP_SUCCESS << 8), ring, low, high);
    this.#target[at + 2] = low;
    this.#target[at + 3] = high;
    this.#enter(0, 0, 0n, 0n);
    return this.#waitingCount === 0 && this.#tail === this.#submitted;
  }

  /** Returns the index in `#target` of the first word of a new, zeroed entry. */
  #entry(first: number, descriptor: number, low: number, high: number): number {
    const full = this.#sqEntries;
    if (this.#tail - this.#submitted === full && this.#waitingCount === 0) this.#enter(0, 0, 0n, 0n);
    const waits = this.#waitingCount > 0 || this.#tail - this.#submitted === full;
    const at = waits ? this.#waitingEntry() : (this.#tail++ & this.#sqMask) * SQE_WORDS;
    if (!waits) this.#target = this.#sqes;
    const sqes = this.#target;
    // A loop, because `fill` is a call into the runtime: 60 ns for each command.
    for (let word = at; word < at + SQE_WORDS; word++) sqes[word] = 0;
    sqes[at] = first;
    sqes[at + 1] = descriptor;
    sqes[at + 8] = low;
    sqes[at + 9] = high;
    return at;
  }

  /**
   * Adds an entry that has to wait for a later turn. The kernel may answer EAGAIN or EBUSY and take
   * nothing until completions are reaped, but this may be called while they are being reaped. There
   * are a few such entries for each socket at most.
   */
  #waitingEntry(): number {
    const at = this.#waitingCount++ * SQE_WORDS;
    if (at === this.#waiting.length) {
      const larger = new Int32Array(Math.max(64 * SQE_WORDS, 2 * at));
      larger.set(this.#waiting);
      this.#waiting = larger;
    }
    this.#target = this.#waiting;
    return at;
  }

  /** Moves waiting entries into the ring, as far as there is room now. */
  #admitWaiting(): void {
    const count = Math.min(this.#waitingCount, this.#sqEntries - (this.#tail - this.#submitted));
    for (let entry = 0; entry < count; entry++) {
      const from = entry * SQE_WORDS;
      const at = (this.#tail++ & this.#sqMask) * SQE_WORDS;
      this.#sqes.set(this.#waiting.subarray(from, from + SQE_WORDS), at);
    }
    this.#waiting.copyWithin(0, count * SQE_WORDS, this.#waitingCount * SQE_WORDS);
    this.#waitingCount -= count;
    if (this.#waitingCount === 0) this.#waiting = new Int32Array(0);
  }

  /** Submits the written entries and lets the kernel complete what it can. */
  submit(): void {
    if (this.#waitingCount > 0) this.#admitWaiting();
    this.#enter(0, ENTER_GETEVENTS, 0n, 0n);
  }

  /**
   * Submits, then sleeps until a completion, for `timeoutMs` at most; not at all while entries
   * wait.
   */
  submitAndWait(timeoutMs: number): void {
    if (this.#waitingCount > 0) this.#admitWaiting();
    if (this.#waitingCount > 0) {
      this.#enter(0, ENTER_GETEVENTS, 0n, 0n);
      return;
    }
    const argument = this.#waitArgument;
    // The low halves of two 64-bit numbers, seconds and nanoseconds; the high ones stay 0.
    const time = this.#waitTime;
    time[0] = Math.floor(timeoutMs / 1000);
    time[2] = Math.floor((timeoutMs % 1000) * 1e6);
    this.#enter(1, this.#waitFlags, argument.pointer, 24n);
  }

  #enter(complete: number, flags: number, argument: bigint, argumentBytes: bigint): void {
    Atomics.store(this.#words, this.#sqTail, this.#tail);
    const result = this.#call(
      this.descriptor,
      this.#tail - this.#submitted,
      complete,
      flags,
      argument,
      argumentBytes,
    );
    // The head shows how far the kernel has come, even if the wait was cut short.
    const head = Atomics.load(this.#words, this.#sqHead);
    this.#submitted += (head - this.#submitted) | 0;
    if (result < 0 && result !== -EINTR && result !== -ETIME && result !== -EAGAIN && result !== -EBUSY)
      throw new KernelError("io_uring_enter", -result);
  }

  // --- completions -------------------------------------------------------------------------------

  /**
   * Passes the first words of the available completions with the second word `high` to `onFound`,
   * without consuming them. Returns the position up to which `sendNow` operations are finished, and
   * their completions were among these. 0 while the ring lacks room for all completions: a failure
   * may be among those missing.
   */
  look(high: number, onFound: (low: number) => void): number {
    const words = this.#words;
    const settled = (Atomics.load(words, this.#sqFlags) & SQ_CQ_OVERFLOW) === 0 ? this.#submitted : 0;
    const tail = Atomics.load(words, this.#cqTail);
    for (let head = this.#head; (head | 0) !== tail; head++) {
      const at = this.#cqes + (head & this.#cqMask) * (CQE_BYTES / 4);
      if (words[at + 1] === high) onFound(words[at]!);
    }
    return settled;
  }

  /** Consumes all completions; returns how many. A receive buffer is valid only during its call. */
  reap(onCompletion: OnCompletion): number {
    const words = this.#words;
    const tail = Atomics.load(words, this.#cqTail);
    let taken = 0;
    let offered = false;
    let hasRunOut = false;
    for (; (this.#head | 0) !== tail; taken++) {
      const at = this.#cqes + (this.#head++ & this.#cqMask) * (CQE_BYTES / 4);
      const flags = words[at + 3]!;
      const result = words[at + 2]!;
      const buffer = (flags & CQE_BUFFER) === 0 ? -1 : flags >>> CQE_BUFFER_SHIFT;
      const bytes = buffer < 0 ? undefined : this.#buffers.views[buffer];
      onCompletion(words[at]!, words[at + 1]!, result, flags, bytes);
      if (buffer >= 0) this.#buffers.offer(buffer);
      else if (result === -ENOBUFS) hasRunOut = true;
      else continue;
      offered = true;
    }
    if (hasRunOut) this.#buffers.offerMore();
    if (taken > 0) Atomics.store(words, this.#cqHead, this.#head);
    if (offered) this.#buffers.publish();
    return taken;
  }
}

/** Returns the timeout as io_uring_enter takes it: the argument, then the time it points to. */
function waitArgument(): Mapping {
  const argument = map(40);
  new BigUint64Array(argument.buffer, 0, 3)[2] = argument.pointer + 24n;
  return argument;
}

const align = (bytes: number): number => Math.ceil(bytes / 4096) * 4096;

// Messages for the kernel at fixed addresses: short ones that are copied (SendSlots), and
// descriptions (struct msghdr) of those whose bytes are in several places (MessageSlots).

/** Replies up to this size are copied to a slot, so that their buffer can be reused at once. */
export const SEND_SLOT_BYTES = 4096;
const SEND_SLOTS = 512;

export class SendSlots {
  readonly #memory = map(SEND_SLOTS * SEND_SLOT_BYTES);
  readonly #bytes = new Uint8Array(this.#memory.buffer);
  readonly #free = Array.from({ length: SEND_SLOTS }, (_, slot) => slot);
  /** The address of each slot. */
  readonly addresses: readonly Address[] = this.#free.map((slot) => this.address(slot, 0));

  /** Copies `bytes[0, length)` to a slot. Returns its number, or -1 if none is free. */
  put(bytes: Uint8Array, length: number): number {
    const slot = this.#free.pop();
    if (slot === undefined) return -1;
    copyBytes(this.#bytes, slot * SEND_SLOT_BYTES, bytes, 0, length);
    return slot;
  }

  /** Returns the address of the slot's bytes from `at` on. */
  address(slot: number, at: number): Address {
    return halves(this.#memory.pointer + BigInt(slot * SEND_SLOT_BYTES + at));
  }

  give(slot: number): void {
    this.#free.push(slot);
  }
}

/** A msghdr, PARTS_MAX iovecs and TRAILER_BYTES, padded to a power of two. */
const SLOT_BYTES = 256;
const HEADER_BYTES = 56;
const PART_BYTES = 16;
const PARTS_MAX = 11;
const TRAILER_AT = 240;
/** Bytes in the slot itself, for the CR LF after a body. */
const TRAILER_BYTES = 2;
/** Offsets in a msghdr, in int32 words: the address of its iovecs, and their number. */
const PARTS = 4;
const PART_COUNT = 6;

/** A fixed number of messages. Each belongs to the kernel from its submission to its completion. */
export class MessageSlots {
  readonly #buffer: ArrayBuffer;
  readonly #words: Int32Array;
  /** The address of each slot. */
  readonly addresses: readonly Address[];
  readonly #free: number[];

  constructor(slots: number) {
    const { buffer, pointer } = map(slots * SLOT_BYTES);
    const start = halves(pointer);
    this.#buffer = buffer;
    this.#words = new Int32Array(buffer);
    this.#free = Array.from({ length: slots }, (_, slot) => slot);
    this.addresses = this.#free.map((slot) => addressBehind(start, slot * SLOT_BYTES));
    for (let slot = 0; slot < slots; slot++) {
      const at = (slot * SLOT_BYTES) >> 2;
      const parts = addressBehind(this.addresses[slot]!, HEADER_BYTES);
      this.#words[at + PARTS] = parts.low;
      this.#words[at + PARTS + 1] = parts.high;
    }
  }

  /** Whether all are in use. */
  get areTaken(): boolean {
    return this.#free.length === 0;
  }

  /** Returns a message without parts. */
  take(): number {
    const slot = this.#free.pop();
    assert(slot !== undefined, "a message is taken only while one is free");
    this.#words[((slot * SLOT_BYTES) >> 2) + PART_COUNT] = 0;
    return slot;
  }

  give(slot: number): void {
    this.#free.push(slot);
  }

  hasRoom(slot: number, parts: number): boolean {
    return this.#words[((slot * SLOT_BYTES) >> 2) + PART_COUNT]! + parts <= PARTS_MAX;
  }

  /**
   * Adds `length` bytes `offset` behind an address. They must not change until the message is done.
   */
  add(slot: number, { low, high }: Address, offset: number, length: number): void {
    const words = this.#words;
    const at = (slot * SLOT_BYTES) >> 2;
    const count = words[at + PART_COUNT]!;
    const part = at + ((HEADER_BYTES + count * PART_BYTES) >> 2);
    const sum = (low >>> 0) + offset;
    words[part] = sum;
    words[part + 1] = sum < 2 ** 32 ? high : high + 1;
    words[part + 2] = length;
    words[part + 3] = 0;
    words[at + PART_COUNT] = count + 1;
  }

  /** Adds the slot's own TRAILER_BYTES. */
  addTrailer(slot: number): void {
    this.add(slot, this.addresses[slot]!, TRAILER_AT, TRAILER_BYTES);
  }

  /** Returns the bytes received into the trailer, valid until the slot is given back. */
  trailer(slot: number): Uint8Array {
    return new Uint8Array(this.#buffer, slot * SLOT_BYTES + TRAILER_AT, TRAILER_BYTES);
  }

  /** Returns the rest of the part that contains byte `offset` of the message. */
  partAt(slot: number, offset: number): { low: number; high: number; length: number } {
    const words = this.#words;
    let at = (slot * SLOT_BYTES + HEADER_BYTES) >> 2;
    let before = 0;
    while (before + words[at + 2]! <= offset) {
      before += words[at + 2]!;
      at += PART_BYTES >> 2;
    }
    const skipped = offset - before;
    const { low, high } = addressBehind({ low: words[at]!, high: words[at + 1]! }, skipped);
    return { low, high, length: words[at + 2]! - skipped };
  }
}

// Reports when full sockets have room again. It uses an epoll instance, because io_uring cannot
// report that.
//
// A poll of io_uring, and the one inside a send, always includes the end of the other side
// (POLLRDHUP). Once a client has half-closed, it is ready at once, with room or without. The kernel
// would then retry the send again and again and finally block one of its threads in it. epoll
// reports only room and errors.

const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLOUT = 0x4;
/**
 * struct epoll_event is packed only on x86-64: `events`, then 64 bits of user data. In int32 words.
 */
const [EVENT_WORDS, DATA_WORD] = process.arch === "x64" ? [3, 1] : [4, 2];
/** Maximum number of events per call; the next call returns the rest. */
const EVENTS = 64;
/** The event for epoll_ctl follows the returned ones. */
const ASKED = EVENTS * EVENT_WORDS;

export class RoomWatch {
  /** Readable when a watched socket has room. */
  readonly descriptor: number = epollCreate();
  readonly #memory = map((EVENTS + 1) * EVENT_WORDS * 4);
  readonly #words = new Int32Array(this.#memory.buffer);
  readonly #asked = this.#memory.pointer + BigInt(ASKED * 4);
  /** Number of watched sockets. */
  watched = 0;

  /**
   * Watches a socket, identified by `index`, until it has room or an error or is shut down. Returns
   * false if the kernel refuses.
   */
  add(descriptor: number, index: number): boolean {
    this.#words[ASKED] = EPOLLOUT;
    this.#words[ASKED + DATA_WORD] = index;
    this.#words[ASKED + DATA_WORD + 1] = descriptor;
    if (epollControl(this.descriptor, EPOLL_CTL_ADD, descriptor, this.#asked) !== 0) return false;
    this.watched++;
    return true;
  }

  /** Reports some of the sockets that have room and stops watching them. */
  take(onRoom: (index: number) => void): void {
    const count = epollLook(this.descriptor, this.#memory.pointer, EVENTS);
    const indexes: number[] = [];
    for (let event = 0; event < count; event++) {
      const at = event * EVENT_WORDS + DATA_WORD;
      epollControl(this.descriptor, EPOLL_CTL_DEL, this.#words[at + 1]!, this.#asked);
      this.watched--;
      indexes.push(this.#words[at]!);
    }
    for (const index of indexes) onRoom(index);
  }

  close(): void {
    closeDescriptor(this.descriptor);
  }
}
