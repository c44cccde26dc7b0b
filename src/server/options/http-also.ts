// `[[http.also]]`: further HTTP addresses, each with the services that it offers.

import { type FileTable, type ReadTable, type Setting, SettingError } from "../../config/setting.ts";
import { type HttpAlso, SERVED, type Served } from "../../http/http-also.ts";
import { describeHttpAddress, isLoopback, parseHttpAddress } from "./http-address.ts";

const ALSO_MAX = 8;

type Also = { -readonly [Key in keyof HttpAlso]: HttpAlso[Key] };

export const HTTP_ALSO_SETTINGS: readonly Setting<Also>[] = [
  {
    key: "listen",
    kind: "port",
    text: "HOST:PORT, PORT or unix:PATH",
    example: "0.0.0.0:9380",
    apply(also, address) {
      also.address = parseHttpAddress(address);
    },
    show: ({ address }) => describeHttpAddress(address),
  },
  {
    key: "serve",
    kind: "list",
    text: `any of ${SERVED.join(", ")}; all by default`,
    example: ["health", "metrics"],
    set(also, names) {
      also.serves = names.map((name) => {
        const known = SERVED.find((each) => each === name);
        if (known === undefined) throw new SettingError(`${name} is not one of ${SERVED.join(", ")}`);
        return known;
      });
      if (names.length === 0) throw new SettingError(`name at least one of ${SERVED.join(", ")}`);
    },
    show: ({ serves }) => serves,
  },
  {
    key: "metrics-public",
    kind: "switch",
    text: "metrics need no token here",
    example: true,
    set(also, on) {
      also.metricsPublic = on;
    },
    show: ({ metricsPublic }) => (metricsPublic ? true : undefined),
  },
  {
    key: "secure",
    kind: "switch",
    text: "speak HTTPS, with the certificate of [http]",
    example: false,
    set(also, on) {
      also.tls = on;
    },
    show: ({ tls }) => (tls ? true : undefined),
  },
];

export function readHttpAlso(tables: readonly FileTable[], read: ReadTable): HttpAlso[] {
  if (tables.length > ALSO_MAX)
    throw new SettingError(`${tables.length} addresses: at most ${ALSO_MAX} are allowed`);
  return tables.map((table) => {
    const also: Also = { address: { host: "", port: 0 }, serves: SERVED, metricsPublic: false, tls: false };
    read(HTTP_ALSO_SETTINGS, ["listen"], also, table);
    return also;
  });
}

/** Returns the table for a parsed entry. */
export function httpAlsoTable(also: HttpAlso): FileTable {
  const shown = HTTP_ALSO_SETTINGS.map((row) => [row.key, row.show(also)] as const);
  return Object.fromEntries(shown.filter(([, value]) => value !== undefined));
}

/**
 * Tells whether the address is safe without tokens: it is a loopback address or offers only
 * harmless services.
 */
export function isHarmless({ address, serves, metricsPublic }: HttpAlso): boolean {
  const needsNoToken: readonly Served[] = metricsPublic ? ["health", "metrics"] : ["health"];
  return isLoopback(address) || serves.every((each) => needsNoToken.includes(each));
}
