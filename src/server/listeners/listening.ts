// Makes the acceptors listen: each on a socket of its own if the kernel distributes connections,
// else all on one socket.

import type { Logger } from "pino";
import type { ListenAddress } from "../../acceptor/sockets/listener.ts";
import { ControlWord, type Topology } from "../../message/topology.ts";
import { Lease, monotonicMs } from "../../ring/monotonic-clock.ts";
import type { AcceptorHandle } from "../../threads/start-threads.ts";
import { explainListenError, type Listen, probeAddress, SocketFile } from "./listen-address.ts";

export class Listening {
  readonly #acceptors: () => readonly AcceptorHandle[];
  readonly #verbose: (line: string) => void;
  readonly #socketFiles: SocketFile[] = [];

  constructor(acceptors: () => readonly AcceptorHandle[], verbose: (line: string) => void) {
    this.#acceptors = acceptors;
    this.#verbose = verbose;
  }

  /**
   * Makes every acceptor listen, and returns a description of the address. Throws an OperatorError.
   */
  async listen(listen: Listen, isTls = false): Promise<string> {
    const [first, ...others] = this.#acceptors();
    const address = await this.#shared(listen, others.length > 0);
    const bound = await listenOne(first!, address, listen);
    for (const acceptor of others) await listenOne(acceptor, address, listen);
    const where = describeAddress(listen, bound.port);
    this.#verbose(`bind ${bound.fd} ${where}\n`);
    return isTls ? `${where} (TLS)` : where;
  }

  /** Throws an OperatorError if the address is taken, before anything has been started for it. */
  async probe(listen: Listen): Promise<void> {
    if (listen.kind === "tcp" && listen.port !== 0) await probedPort(listen);
  }

  /** Returns the address in the form that all acceptors get. */
  async #shared(listen: Listen, byMany: boolean): Promise<ListenAddress> {
    if (listen.kind === "unix") {
      const file = new SocketFile(listen);
      this.#socketFiles.push(file);
      return { kind: "descriptor", fd: file.fd };
    }
    if (listen.kind === "descriptor" || !byMany)
      return listen.kind === "tcp" ? { ...listen, reusePort: false } : listen;
    return { ...listen, reusePort: true, port: await probedPort(listen) };
  }

  /** Removes the paths of unix sockets that still belong to this server. */
  removeSocketFiles(): void {
    for (const file of this.#socketFiles) file.remove();
  }
}

async function probedPort(listen: Listen & { kind: "tcp" }): Promise<number> {
  try {
    return await probeAddress(listen.host, listen.port);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw explainListenError(listen, code ?? "UNKNOWN", message);
  }
}

async function listenOne(
  acceptor: AcceptorHandle,
  address: ListenAddress,
  listen: Listen,
): Promise<{ port: number; fd: number }> {
  const news = await acceptor.listen(address);
  if (news.news === "listening") return news;
  throw news.news === "failed" ? explainListenError(listen, news.code, news.message) : new Error(news.news);
}

function describeAddress(listen: Listen, port: number): string {
  if (listen.kind === "unix") return listen.path;
  if (listen.kind === "descriptor") return `the inherited descriptor ${listen.fd}`;
  return listen.host.includes(":") ? `[${listen.host}]:${port}` : `${listen.host}:${port}`;
}

// Closes the ports while this server of a group may not serve, so that balancers and clients go to
// another one, and reopens them afterwards.
//
// A frozen server would accept connections and never answer. A process that is stopped as a whole
// can't close its ports; see docs/more-than-one-machine.md for checks that detect that too.

const LOOK_MS = 100;

export class FrozenPorts {
  readonly #lease: Lease;
  readonly #acceptors: readonly AcceptorHandle[];
  readonly #log: Logger;
  #isClosed = false;

  /** Starts watching at once; for a server that serves. */
  constructor(topology: Topology, acceptors: readonly AcceptorHandle[], log: Logger) {
    const words = new Int32Array(topology.control);
    this.#lease = new Lease(words, ControlWord.ServeUntil, ControlWord.ServeUntilWall);
    this.#acceptors = acceptors;
    this.#log = log;
    setInterval(() => this.#look(), LOOK_MS).unref();
  }

  #look(): void {
    const isFrozen = this.#lease.isOver(monotonicMs());
    if (isFrozen === this.#isClosed) return;
    this.#isClosed = isFrozen;
    for (const acceptor of this.#acceptors) {
      if (isFrozen) acceptor.closePorts();
      else acceptor.listenAgain();
    }
    if (isFrozen)
      this.#log.warn(
        "frozen: the shared log does not answer; the port is closed until it does, connections stay",
      );
  }
}
