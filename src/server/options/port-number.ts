// Ports, as options name them.

import { readOperatorFile } from "../../config/operator-file.ts";
import { SettingError } from "../../config/setting.ts";

const PORT_MAX = 65_535;

/**
 * Returns a port number for a number or the name of a TCP service; 0 for "", which picks a free
 * port. Throws SettingError.
 */
export function portNumber(text: string): number {
  if (text === "") return 0;
  if (/^[0-9]+$/.test(text)) {
    if (Number(text) <= PORT_MAX) return Number(text);
    throw new SettingError(`invalid port: ${text} (0 to ${PORT_MAX})`);
  }
  let services = "";
  try {
    services = readOperatorFile("system", "/etc/services");
  } catch {
    // Without the file, all names are unknown.
  }
  for (const line of services.split("\n")) {
    const [names, port] = [line.replace(/#.*/, "").split(/\s+/), /\s(\d+)\/tcp\b/.exec(line)?.[1]];
    if (port !== undefined && names.includes(text)) return Number(port);
  }
  throw new SettingError(`unknown port or service: ${text} (0 to ${PORT_MAX}, or a name of /etc/services)`);
}
