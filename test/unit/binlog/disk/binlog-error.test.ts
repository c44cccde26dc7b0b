// Tests of what an operator reads about an error of the disk.

import assert from "node:assert/strict";
import { it } from "node:test";
import {
  asBinlogError,
  BinlogError,
  isDescriptorShortage,
  isShortage,
  isSystemError,
  reasonOf,
  systemCode,
} from "../../../../src/binlog/disk/binlog-error.ts";

const failure = (code: unknown): Error => Object.assign(new Error(`${code}: it failed`), { code });
const own = new BinlogError("BINLOG_CORRUPT", "damaged", "restore it");

it("a system's error is known by its code", () => {
  assert.equal(systemCode(failure("ENOSPC")), "ENOSPC");
  for (const other of [failure(7), new Error("x"), null, undefined, "ENOSPC"])
    assert.equal(systemCode(other), "");
  for (const code of ["ENOENT", "EACCES", "EIO", "E2BIG"]) assert.ok(isSystemError(failure(code)), code);
  for (const other of [own, failure("ERR_INVALID_ARG_TYPE"), failure("x"), failure("XE"), new Error("E")])
    assert.ok(!isSystemError(other));
});

it("a shortage is one of space or of descriptors", () => {
  for (const code of ["ENOSPC", "EDQUOT"]) {
    assert.ok(isShortage(failure(code)));
    assert.ok(!isDescriptorShortage(failure(code)));
  }
  for (const code of ["EMFILE", "ENFILE"])
    assert.ok(isShortage(failure(code)) && isDescriptorShortage(failure(code)));
  for (const code of ["EIO", "EROFS", ""]) assert.ok(!isShortage(failure(code)));
});

it("an operator reads what happened, where, and what to do", () => {
  const told = (code: string): string[] => {
    const error = asBinlogError(failure(code), "/var/lib/rb") as BinlogError;
    assert.ok(error instanceof BinlogError);
    assert.match(error.message, /\/var\/lib\/rb.*it failed/);
    assert.equal((error.cause as { code: string }).code, code);
    return [error.code, error.nextStep];
  };
  assert.match(told("ENOSPC").join(" "), /^BINLOG_NO_SPACE Make room/);
  assert.match(told("EMFILE").join(" "), /^BINLOG_NO_SPACE Raise the limit of open files/);
  for (const code of ["EACCES", "EPERM"])
    assert.match(told(code).join(" "), /^BINLOG_DIR .*chown -R USER \/var\/lib\/rb/);
  assert.match(told("EIO").join(" "), /^BINLOG_IO Check that file and its disk/);
});

it("other errors stay what they are", () => {
  for (const other of [own, new TypeError("a fault of the program"), undefined, "text"])
    assert.equal(asBinlogError(other, "/var/lib/rb"), other);
  assert.equal(reasonOf(new Error("why")), "why");
  assert.equal(reasonOf("why"), "why");
  assert.equal("cause" in own, false);
  assert.equal(own.name, "BinlogError");
});
