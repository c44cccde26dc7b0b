// Lists of addresses and networks, such as "10.0.0.0/8", "fd00::/8" and "192.0.2.7".

import ipaddr from "ipaddr.js";

type Address = ReturnType<typeof ipaddr.process>;

export class AddressList {
  readonly #networks: readonly [Address, number][];

  /** Throws a TypeError that names the first text that is not an address or a network. */
  constructor(texts: readonly string[]) {
    this.#networks = texts.map(parseNetwork);
  }

  /** Returns whether the list contains the address. An IPv4-mapped IPv6 address counts as IPv4. */
  includes(text: string): boolean {
    if (!ipaddr.isValid(text)) return false;
    const address = ipaddr.process(text);
    return this.#networks.some(
      ([network, bits]) => network.kind() === address.kind() && address.match(network, bits),
    );
  }
}

function parseNetwork(text: string): [Address, number] {
  try {
    if (text.includes("/")) {
      const [address, bits] = ipaddr.parseCIDR(text);
      return [address, bits];
    }
    // Rejects "10.1" and plain numbers, which only C's address parsers accept.
    if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) throw new Error();
    const address = ipaddr.process(text);
    return [address, address.kind() === "ipv4" ? 32 : 128];
  } catch {
    throw new TypeError(`${text} is not an address or network, such as 192.0.2.7 or 10.0.0.0/8`);
  }
}
