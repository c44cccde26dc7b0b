// Base of the fuzzers with a running server, which is restarted after a finding.

import { JOB_BYTES_MAX } from "./command-grammar.ts";
import type { FuzzServerOptions } from "./fuzz-server.ts";
import type { Difference, FuzzCase, Fuzzer, FuzzerName } from "./fuzzer.ts";
import { ServerUnderTest } from "./server-under-test.ts";

export abstract class ServerFuzzer implements Fuzzer {
  abstract readonly name: FuzzerName;
  readonly place: string = "server";
  protected readonly server: ServerUnderTest;

  constructor(options: FuzzServerOptions) {
    this.server = new ServerUnderTest(options);
  }

  abstract draw(seed: number): FuzzCase;

  abstract judge(fuzzCase: FuzzCase): Promise<Difference | undefined>;

  flagsOf(): string {
    return `-z ${JOB_BYTES_MAX}`;
  }

  async restart(): Promise<void> {
    await this.stop();
  }

  async finish(): Promise<void> {
    await this.server.finish();
  }

  async stop(): Promise<void> {
    await this.server.stop();
  }
}
