// A whole server in one thread, driven by hand, with one listener that demands a token, on its own
// clock.

import assert from "node:assert/strict";
import { AdmissionControl } from "../../../src/acceptor/admission/admission-control.ts";
import { type AccessRules, NO_LIMITS } from "../../../src/acceptor/admission/listener-policy.ts";
import type { Token } from "../../../src/access/token-file.ts";
import { AUTH } from "../../../src/protocol/commands.ts";
import { HandDrivenClient, HandDrivenServer } from "./hand-driven-server.ts";

const GUARDED_ADDRESS = "192.0.2.1";

export class GuardedHandDriven {
  readonly server: HandDrivenServer;
  nowMs = 1000;
  readonly admission: AdmissionControl;
  #onWoken: () => void = () => {};

  constructor(tokens: readonly Token[], server: HandDrivenServer = new HandDrivenServer(1)) {
    this.server = server;
    this.admission = new AdmissionControl({
      rules: this.#rules(tokens),
      counts: undefined,
      counters: server.acceptor.counters,
      parser: server.acceptor.parserWith([AUTH]),
      nowMs: () => this.nowMs,
      unixMs: () => this.nowMs,
      warn: () => {},
      wake: () => this.#onWoken(),
    });
  }

  #rules(tokens: readonly Token[]): AccessRules {
    return {
      tokens,
      limits: NO_LIMITS,
      policies: [{ name: "test", tls: undefined, auth: "token", allow: undefined, proxyFrom: undefined }],
    };
  }

  /** The token file was read again. */
  reload(tokens: readonly Token[]): void {
    this.admission.configure(this.#rules(tokens));
  }

  connect(reads = true): HandDrivenClient {
    const entry = this.admission.admit(0, GUARDED_ADDRESS);
    assert.ok(typeof entry !== "string", "it is let in");
    const client = new HandDrivenClient(reads);
    client.connection = this.server.acceptor.connect(entry.wrap(client), entry.filter)!;
    return client;
  }

  /** Replies to the client once its password has been checked. */
  async answered(client: HandDrivenClient): Promise<string> {
    for (;;) {
      const reply = client.take();
      if (reply !== "") return reply;
      await new Promise<void>((resolve) => {
        this.#onWoken = resolve;
      });
      this.server.settle();
    }
  }
}
