// Imported first by a test that makes network devices: it starts the file again in a network
// namespace of its own. A new device of the machine's own network ends every request of a
// browser, which is how tests of pages failed that ran beside.

import { noNamespaces } from "./namespaces.ts";
import { missing, NEEDS } from "./need.ts";

const { OWN_NETWORK } = process.env;

if (OWN_NETWORK === undefined && noNamespaces() === undefined && missing(NEEDS.unshare) === undefined) {
  const node = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  const args = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", ...node];
  process.execve?.(NEEDS.unshare.path, args, { ...process.env, OWN_NETWORK: "1" });
}
