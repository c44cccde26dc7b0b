// Lists of addresses and networks: "10.0.0.0/8", "fd00::/8", "192.0.2.7".

import ipaddr from "ipaddr.js";

type Address = ReturnType<typeof ipaddr.process>;

export class AddressList {
  readonly #networks: readonly [Address, number][];

  /** Throws TypeError, naming what is no address. */
  constructor(texts: readonly string[]) {
    this.#networks = texts.map(parseNetwork);
  }

  /** Whether the address is in it. One of IPv4 that comes in the clothes of IPv6 is one of IPv4. */
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
    // Not "10.1" or a number, which stand for addresses in C only.
    if (!ipaddr.IPv4.isValidFourPartDecimal(text) && !ipaddr.IPv6.isValid(text)) throw new Error();
    const address = ipaddr.process(text);
    return [address, address.kind() === "ipv4" ? 32 : 128];
  } catch {
    throw new TypeError(`${text} is no address or network, as 192.0.2.7 or 10.0.0.0/8`);
  }
}
