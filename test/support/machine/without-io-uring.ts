// Runs a program as under a container's default seccomp profile: io_uring_setup fails with EPERM.
//
// node without-io-uring.ts PROGRAM ARGUMENT …

import { dlopen, getRawPointer } from "node:ffi";

const PR_SET_NO_NEW_PRIVS = 38;
const PR_SET_SECCOMP = 22;
const SECCOMP_MODE_FILTER = 2n;
const SYS_IO_URING_SETUP = 425;
const EPERM = 1;

/** A BPF instruction: code, jumps when true and false, operand (linux/filter.h). */
const instruction = (code: number, jumpTrue: number, jumpFalse: number, operand: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16LE(code, 0);
  bytes.writeUInt8(jumpTrue, 2);
  bytes.writeUInt8(jumpFalse, 3);
  bytes.writeUInt32LE(operand, 4);
  return bytes;
};

const filter = Buffer.concat([
  // Load the number of the system call, compare, refuse or allow.
  instruction(0x20, 0, 0, 0),
  instruction(0x15, 0, 1, SYS_IO_URING_SETUP),
  instruction(0x06, 0, 0, 0x00050000 | EPERM),
  instruction(0x06, 0, 0, 0x7fff0000),
]);
const program = Buffer.alloc(16);
program.writeUInt16LE(filter.length / 8, 0);
program.writeBigUInt64LE(getRawPointer(filter), 8);

const { functions } = dlopen(null, {
  prctl: { arguments: ["i32", "u64", "u64", "u64", "u64"], return: "i32" },
});
const filtered =
  functions.prctl(PR_SET_NO_NEW_PRIVS, 1n, 0n, 0n, 0n) === 0 &&
  functions.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, getRawPointer(program), 0n, 0n) === 0;
if (!filtered) throw new Error("seccomp can't be set up here");

const [command, ...args] = process.argv.slice(2);
process.execve!(command!, [command!, ...args], process.env as Record<string, string>);
