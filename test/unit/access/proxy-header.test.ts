// Tests of the PROXY header: both versions, each cut, and bytes that aren't one.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { readProxyHeader } from "../../../src/access/proxy-header.ts";
import { SeededRandom } from "../../support/seeded-random.ts";

const V2_START = Buffer.from("\r\n\r\n\0\r\nQUIT\n", "latin1");

/** A header of version 2, with the length of `rest` unless another one is given. */
function v2(command: number, family: number, rest: Buffer, length = rest.length): Buffer {
  const fixed = Buffer.from([command, family, length >> 8, length & 0xff]);
  return Buffer.concat([V2_START, fixed, rest]);
}

const ports = Buffer.from([0x9c, 0x40, 0x2c, 0x24]);
const ipv4 = Buffer.concat([Buffer.from([203, 0, 113, 7, 127, 0, 0, 1]), ports]);
const ipv6 = (source: string): Buffer =>
  Buffer.concat([Buffer.from(source, "hex"), Buffer.alloc(16, 1), ports]);
const someIPv6 = ipv6("20010db8000000000000000000000007");
const extension = Buffer.from([4, 0, 2, 1, 2]);

const ann = { address: "203.0.113.7", port: 40_000, family: "IPv4" };
const bob = { address: "2001:db8::7", port: 40_000, family: "IPv6" };
const line = (text: string): Buffer => Buffer.from(`${text}\r\n`, "latin1");

const HEADERS: readonly (readonly [what: string, header: Buffer, peer: object | undefined])[] = [
  ["v1 IPv4", line("PROXY TCP4 203.0.113.7 127.0.0.1 40000 11300"), ann],
  ["v1 IPv6", line("PROXY TCP6 2001:DB8:0::7 ::1 40000 11300"), bob],
  ["v1 IPv4 within IPv6", line("PROXY TCP6 ::ffff:203.0.113.7 ::1 40000 11300"), ann],
  ["v1 of an unknown client", line("PROXY UNKNOWN"), undefined],
  ["v1 of an unknown client with more", line(`PROXY UNKNOWN ${"f:".repeat(44)} 1`), undefined],
  ["v1 of 107 bytes", line(`PROXY UNKNOWN ${"x".repeat(91)}`), undefined],
  ["v2 IPv4", v2(0x21, 0x11, ipv4), ann],
  ["v2 IPv6", v2(0x21, 0x21, someIPv6), bob],
  ["v2 IPv4 within IPv6", v2(0x21, 0x21, ipv6("00000000000000000000ffffcb007107")), ann],
  ["v2 with extensions", v2(0x21, 0x11, Buffer.concat([ipv4, extension])), ann],
  ["v2 LOCAL", v2(0x20, 0x00, Buffer.alloc(0)), undefined],
  ["v2 LOCAL with addresses", v2(0x20, 0x11, ipv4), undefined],
  ["v2 LOCAL of an unknown family", v2(0x20, 0x77, extension), undefined],
  ["v2 of an unknown client", v2(0x21, 0x00, extension), undefined],
  ["v2 of a unix socket", v2(0x21, 0x31, Buffer.alloc(216, 0x2f)), undefined],
  ["v2 of 4096 bytes", v2(0x21, 0x11, Buffer.concat([ipv4, Buffer.alloc(4068)])), ann],
];

const OTHERS: readonly (readonly [what: string, bytes: Buffer, found: string])[] = [
  ["a command", line("put 0 0 60 1"), "missing"],
  ["a command that begins like it", line("PUT"), "missing"],
  ["an empty line", line(""), "cut"],
  ["two empty lines and a command", line("\r\n\r\nuse a"), "missing"],
  ["TLS", Buffer.from([0x16, 0x03, 0x01, 0x02]), "missing"],
  ["v1 in small letters", line("proxy TCP4 203.0.113.7 127.0.0.1 40000 11300"), "missing"],
  ["v1 of another protocol", line("PROXY UDP4 203.0.113.7 127.0.0.1 40000 11300"), "wrong"],
  ["v1 without ports", line("PROXY TCP4 203.0.113.7 127.0.0.1"), "wrong"],
  ["v1 with two blanks", line("PROXY TCP4  203.0.113.7 127.0.0.1 40000 11300"), "wrong"],
  ["v1 with a tab", line("PROXY TCP4\t203.0.113.7 127.0.0.1 40000 11300"), "wrong"],
  ["v1 with more", line("PROXY TCP4 203.0.113.7 127.0.0.1 40000 11300 x"), "wrong"],
  ["v1 of a bad address", line("PROXY TCP4 203.0.113.256 127.0.0.1 40000 11300"), "wrong"],
  ["v1 of a short address", line("PROXY TCP4 203.7 127.0.0.1 40000 11300"), "wrong"],
  ["v1 of a bad destination", line("PROXY TCP4 203.0.113.7 localhost 40000 11300"), "wrong"],
  ["v1 of the other version", line("PROXY TCP6 203.0.113.7 127.0.0.1 40000 11300"), "wrong"],
  ["v1 of an address with a zone", line("PROXY TCP6 fe80::1%eth0 ::1 40000 11300"), "wrong"],
  ["v1 of a bad port", line("PROXY TCP4 203.0.113.7 127.0.0.1 65536 11300"), "wrong"],
  ["v1 of a signed port", line("PROXY TCP4 203.0.113.7 127.0.0.1 +40 11300"), "wrong"],
  ["v1 with LF alone", Buffer.from(`PROXY UNKNOWN\nuse ${"a".repeat(100)}\r\n`), "wrong"],
  ["v1 with CR within", line("PROXY UNKNOWN \rx"), "wrong"],
  ["v1 of 108 bytes", line(`PROXY UNKNOWN ${"x".repeat(92)}`), "wrong"],
  ["v1 without an end", Buffer.from(`PROXY UNKNOWN ${"x".repeat(93)}`), "wrong"],
  ["v2 of version 1", v2(0x11, 0x11, ipv4), "wrong"],
  ["v2 of version 3", v2(0x31, 0x11, ipv4), "wrong"],
  ["v2 of another command", v2(0x22, 0x11, ipv4), "wrong"],
  ["v2 of UDP", v2(0x21, 0x12, ipv4), "wrong"],
  ["v2 of an unknown family", v2(0x21, 0x41, ipv4), "wrong"],
  ["v2 with too few bytes", v2(0x21, 0x11, ipv4.subarray(1)), "wrong"],
  ["v2 IPv6 with too few bytes", v2(0x21, 0x21, ipv4), "wrong"],
  ["v2 of 4097 bytes", v2(0x21, 0x11, Buffer.concat([ipv4, Buffer.alloc(4069)])), "wrong"],
  ["v2 of 64 KiB, of which little is there", v2(0x20, 0x00, extension, 65_535), "wrong"],
];

describe("readProxyHeader", () => {
  for (const [what, header, peer] of HEADERS)
    it(`reads ${what}, whatever follows, and finds each cut`, () => {
      for (const behind of ["", "put 0 0 60 1\r\na\r\n", "PROXY UNKNOWN\r\n"])
        assert.deepEqual(readProxyHeader(Buffer.concat([header, Buffer.from(behind)])), {
          ...{ bytes: header.length, peer },
        });
      for (let bytes = 0; bytes < header.length; bytes++)
        assert.equal(readProxyHeader(header.subarray(0, bytes)), "cut", `${bytes} bytes`);
    });

  for (const [what, bytes, found] of OTHERS)
    it(`says that ${what} is ${found}`, () => assert.equal(readProxyHeader(bytes), found));

  it("never changes its mind: what is missing or wrong stays so, and a header stays the same", () => {
    const random = new SeededRandom(7);
    for (let round = 0; round < 3000; round++) {
      const bytes = Buffer.concat([random.pick(HEADERS)![1], Buffer.from("use a\r\n")]);
      for (let changes = random.between(0, 3); changes > 0; changes--)
        bytes[random.between(0, Math.min(bytes.length, 60) - 1)] = random.between(0, 255);
      let before: unknown = "cut";
      for (let length = 0; length <= bytes.length; length++) {
        const found = readProxyHeader(bytes.subarray(0, length));
        if (before !== "cut") assert.deepEqual(found, before, `round ${round}, ${length} bytes`);
        before = found;
      }
    }
  });
});
