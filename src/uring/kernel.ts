// The functions of the C library and of libuv that io_uring needs, through node:ffi.
//
// node:ffi is experimental in Node 26. Besides this file, only server/lifecycle/memory.ts
// loads it, and with --transport libuv neither does. Pointers are BigInts. Memory that the kernel
// writes is mapped here and never moves.

import { dlopen, getCurrentEventLoop, getInt32, getRawPointer, toArrayBuffer } from "node:ffi";

/** A failed system call. */
export class KernelError extends Error {
  constructor(call: string, errno: number) {
    super(`${call}: ${MEANINGS[errno] ?? `errno ${errno}`}`);
  }
}

/** Errors that an operator may encounter, by number (asm-generic/errno.h). */
const MEANINGS: Readonly<Record<number, string>> = {
  1: "EPERM, not permitted: a container's seccomp profile, or the sysctl kernel.io_uring_disabled",
  12: "ENOMEM, out of memory or of locked memory (ulimit -l)",
  22: "EINVAL, this kernel is too old: Linux 6.1 or later is needed",
  24: "EMFILE, out of file descriptors (ulimit -n)",
  38: "ENOSYS, this kernel has no io_uring",
};

const { functions: libc } = dlopen(null, {
  syscall: { arguments: ["i64", "i64", "i64", "i64", "i64", "i64", "i64"], return: "i64" },
  mmap: { arguments: ["u64", "u64", "i32", "i32", "i32", "i64"], return: "pointer" },
  shutdown: { arguments: ["i32", "i32"], return: "i32" },
  getsockopt: { arguments: ["i32", "i32", "i32", "u64", "u64"], return: "i32" },
  recv: { arguments: ["i32", "u64", "u64", "i32"], return: "i64" },
  close: { arguments: ["i32"], return: "i32" },
  epoll_create1: { arguments: ["i32"], return: "i32" },
  epoll_ctl: { arguments: ["i32", "i32", "i32", "u64"], return: "i32" },
  epoll_wait: { arguments: ["i32", "u64", "i32", "i32"], return: "i32" },
  uv_backend_fd: { arguments: ["pointer"], return: "i32" },
  __errno_location: { arguments: [], return: "pointer" },
});

/** The same with narrow numbers, which need no BigInt, for the call in every turn. */
const { functions: narrow } = dlopen(null, {
  syscall: { arguments: ["i32", "i32", "i32", "i32", "i32", "u64", "u64"], return: "i32" },
});

// System call numbers, the same on x86-64 and arm64 (asm-generic/unistd.h).
const SYS_IO_URING_SETUP = 425n;
const SYS_IO_URING_ENTER = 426;
const SYS_IO_URING_REGISTER = 427n;

const PROT_READ_WRITE = 0x3;
const MAP_SHARED_POPULATE = 0x8001;
const MAP_PRIVATE_ANONYMOUS = 0x22;
const SHUT_RDWR = 2;
const MSG_PEEK = 0x2;
const MSG_DONTWAIT = 0x40;
const SOL_SOCKET = 1;
const SO_DOMAIN = 39;
const AF_INET = 2;
const AF_INET6 = 10;
const F_DUPFD_CLOEXEC = 1030;
const EPOLL_CLOEXEC = 0x80000;
/** fcntl, whose number differs between the two. */
const SYS_FCNTL = process.arch === "arm64" ? 25 : 72;

function errno(): number {
  return getInt32(libc.__errno_location());
}

/** Memory at a fixed address, and that address. */
export interface Mapping {
  readonly buffer: ArrayBuffer;
  readonly pointer: bigint;
}

/**
 * Maps `bytes` of a descriptor at `offset`, or zeroed new memory without a descriptor. Throws
 * KernelError.
 */
export function map(bytes: number, descriptor = -1, offset = 0n): Mapping {
  const flags = descriptor < 0 ? MAP_PRIVATE_ANONYMOUS : MAP_SHARED_POPULATE;
  const pointer = libc.mmap(0n, BigInt(bytes), PROT_READ_WRITE, flags, descriptor, offset);
  // MAP_FAILED is -1.
  if (pointer === 0n || pointer >= 2n ** 63n) throw new KernelError("mmap", errno());
  return { buffer: toArrayBuffer(pointer, bytes, false), pointer };
}

const peeked = map(1);
/** A socket option and its length in bytes. */
const option = map(8);

/** An address as two int32 words, as the kernel's structures hold it. */
export interface Address {
  readonly low: number;
  readonly high: number;
}

const addresses = new WeakMap<Uint8Array, Address>();

/**
 * Returns the address of an array's bytes, valid while the array lives. Slabs and buffers are used
 * again and again, and a BigInt for each use would cost as much as the copy of a small body.
 */
export function addressOf(bytes: Uint8Array): Address {
  let address = addresses.get(bytes);
  if (address === undefined) addresses.set(bytes, (address = halves(getRawPointer(bytes))));
  return address;
}

/** Returns the address `offset` bytes behind another. */
export function addressBehind({ low, high }: Address, offset: number): Address {
  const sum = (low >>> 0) + offset;
  return { low: sum | 0, high: sum < 2 ** 32 ? high : high + 1 };
}

/**
 * Calls io_uring_setup: returns the ring's descriptor and fills in `params`. Throws KernelError.
 */
export function setup(entries: number, params: Mapping): number {
  const result = Number(libc.syscall(SYS_IO_URING_SETUP, BigInt(entries), params.pointer, 0n, 0n, 0n, 0n));
  if (result < 0) throw new KernelError("io_uring_setup", errno());
  return result;
}

/** Calls io_uring_register. Throws KernelError. */
export function register(ring: number, operation: number, argument: Mapping, count: number): void {
  const result = libc.syscall(
    SYS_IO_URING_REGISTER,
    BigInt(ring),
    BigInt(operation),
    argument.pointer,
    BigInt(count),
    0n,
    0n,
  );
  if (result < 0n) throw new KernelError("io_uring_register", errno());
}

/** Calls io_uring_enter: returns the number of entries submitted, or the negative errno. */
export function enter(
  ring: number,
  submit: number,
  complete: number,
  flags: number,
  argument: bigint,
  argumentBytes: bigint,
): number {
  const result = narrow.syscall(SYS_IO_URING_ENTER, ring, submit, complete, flags, argument, argumentBytes);
  return result >= 0 ? result : -errno();
}

/**
 * Peeks at one byte of a socket without consuming it. Returns 1, 0 at the end of the stream, or the
 * negative errno: -EAGAIN if there is nothing. The kernel reports an error of a connection only
 * once.
 */
export function peek(descriptor: number): number {
  const result = Number(libc.recv(descriptor, peeked.pointer, 1n, MSG_PEEK | MSG_DONTWAIT));
  return result >= 0 ? result : -errno();
}

/** Returns whether a descriptor is a socket of TCP, not of the file system. */
export function isTcp(descriptor: number): boolean {
  const words = new Int32Array(option.buffer);
  words[1] = 4;
  const result = libc.getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, option.pointer, option.pointer + 4n);
  return result === 0 && (words[0] === AF_INET || words[0] === AF_INET6);
}

/** Returns another descriptor of the same socket, or -1 if none is left. */
export function duplicate(descriptor: number): number {
  return narrow.syscall(SYS_FCNTL, descriptor, F_DUPFD_CLOEXEC, 0, 0, 0n, 0n);
}

/** Closes such a descriptor. */
export function closeDescriptor(descriptor: number): void {
  libc.close(descriptor);
}

/** Ends both directions of a socket at once. Pending operations complete. */
export function shutdown(descriptor: number): void {
  libc.shutdown(descriptor, SHUT_RDWR);
}

/** Returns a new epoll instance. Throws KernelError. */
export function epollCreate(): number {
  const descriptor = libc.epoll_create1(EPOLL_CLOEXEC);
  if (descriptor < 0) throw new KernelError("epoll_create1", errno());
  return descriptor;
}

/** Calls epoll_ctl: returns 0 or the negative errno. `event` is an address. */
export function epollControl(epoll: number, operation: number, descriptor: number, event: bigint): number {
  return libc.epoll_ctl(epoll, operation, descriptor, event) === 0 ? 0 : -errno();
}

/**
 * Writes at most `count` current events of an epoll instance to the address `events`. Returns how
 * many.
 */
export function epollLook(epoll: number, events: bigint, count: number): number {
  return libc.epoll_wait(epoll, events, count, 0);
}

/**
 * Returns the epoll descriptor of this thread's event loop. It is readable when the loop has work.
 */
export function eventLoopDescriptor(): number {
  return libc.uv_backend_fd(getCurrentEventLoop());
}

/** Returns the two int32 halves of an address, as the kernel's structures hold them. */
export function halves(address: bigint): Address {
  return { low: Number(BigInt.asIntN(32, address)), high: Number(BigInt.asIntN(32, address >> 32n)) };
}
