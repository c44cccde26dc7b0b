// Server with further listeners from a configuration file, for tests of access.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { drawSecret, hashOf } from "../../../src/access/secrets.ts";
import { NO_TOKENS } from "../../../src/access/token-file.ts";
import { freePort } from "../machine/free-port.ts";
import { type ServerProcess, startServer } from "./server-process.ts";

export class GuardedServer {
  readonly server: ServerProcess;
  readonly folder: string;
  readonly config: string;
  readonly tokenFile: string;
  /** For each listener, in the order of the file. */
  readonly ports: readonly number[];

  private constructor(server: ServerProcess, folder: string, ports: readonly number[]) {
    this.server = server;
    this.folder = folder;
    this.config = join(folder, "runnerbean.toml");
    this.tokenFile = join(folder, "tokens");
    this.ports = ports;
  }

  /** `configOf` makes the file of the ports that its listeners may have. */
  static async start(
    folder: string,
    tokens: string,
    listeners: number,
    configOf: (ports: readonly number[]) => string,
    flags: readonly string[] = [],
  ): Promise<GuardedServer> {
    const ports = await Promise.all(Array.from({ length: listeners }, () => freePort()));
    const config = join(folder, "runnerbean.toml");
    const tokenFile = join(folder, "tokens");
    writeFileSync(tokenFile, tokens || `${NO_TOKENS}\n`, { mode: 0o600 });
    writeFileSync(config, configOf(ports) || "# nothing\n");
    const given = ["--config", config, "--token-file", tokenFile, ...flags];
    return new GuardedServer(await startServer({ kind: "ours", flags: given }), folder, ports);
  }
}

/** A secret, and the line of its token. */
export function newToken(name: string, rest: string): { secret: string; line: string } {
  const secret = drawSecret();
  const [role, ...more] = rest.split(" ");
  return { secret, line: `${name} ${role} sha256:${hashOf(secret)} ${more.join(" ")}\n` };
}
