// A server with changing jobs, for the dashboard's tests and screenshots.

import { WireClient } from "../support/server/wire-client.ts";

const TUBES = [
  { name: "mail-eu", ready: 40, workers: 2, ttr: 60 },
  { name: "mail-us", ready: 12, workers: 1, ttr: 60 },
  { name: "sms", ready: 25, workers: 3, ttr: 30 },
  { name: "thumbnails", ready: 8, workers: 2, ttr: 120 },
  { name: "invoices", ready: 3, workers: 1, ttr: 300 },
] as const;
/** Jobs arrive as fast as they are done. */
const WORK_MS = 360;

const bodyOf = (tube: string, n: number): string =>
  JSON.stringify({ to: `user${n}@example.org`, tube, template: n % 3 === 0 ? "welcome" : "reminder", n });

/** Jobs of all states, and clients that put, reserve and delete until `stop`. */
export class LivingData {
  readonly #port: number;
  readonly #clients: WireClient[] = [];
  #timer: NodeJS.Timeout | undefined;
  #turn: Promise<void> | undefined;
  #number = 0;
  #hasEnded = false;

  constructor(port: number) {
    this.#port = port;
  }

  async #client(): Promise<WireClient> {
    const client = await WireClient.connect({ port: this.#port, host: "127.0.0.1" });
    this.#clients.push(client);
    return client;
  }

  async begin(): Promise<void> {
    const producer = await this.#client();
    for (const { name, ready, ttr } of TUBES) {
      await producer.ask(`use ${name}`);
      for (let i = 0; i < ready; i++) await producer.put(bodyOf(name, ++this.#number), { ttr });
      await producer.put(bodyOf(name, ++this.#number), { ttr, delay: 3600 });
    }
    await producer.ask("use reports");
    await producer.put('{"month":"2026-10"}', { ttr: 600 });
    await producer.put('{"month":"2026-11"}', { ttr: 600 });
    await this.#buried();
    await this.#dead(producer);
    for (const { name, workers } of TUBES) for (let i = 0; i < workers; i++) await this.#work(name);
    this.#timer = setInterval(() => {
      this.#turn ??= this.#produce(producer).finally(() => {
        this.#turn = undefined;
      });
    }, WORK_MS);
  }

  async #buried(): Promise<void> {
    const client = await this.#client();
    await client.ask("watch mail-eu");
    await client.ask("ignore default");
    for (let i = 0; i < 2; i++) {
      const { line } = await client.ask("reserve-with-timeout 0");
      await client.ask(`bury ${line.split(" ")[1]} 10 reason=no%20template`);
    }
  }

  /** Jobs that failed once too often, and a tube that is paused. */
  async #dead(client: WireClient): Promise<void> {
    await client.ask("set-tube mail-* max-attempts=5 backoff=10");
    await client.ask("set-tube sync max-attempts=1 dead-letter=sync-dead");
    await client.ask("use sync");
    for (let i = 0; i < 12; i++) {
      const { line } = await client.put(bodyOf("sync", ++this.#number));
      const id = line.split(" ")[1];
      await client.ask(`reserve-job ${id}`);
      await client.ask(`release ${id} 0 0 reason=SMTP%20550:%20no%20such%20user`);
    }
    await client.ask("use newsletter");
    await client.put('{"edition":"2026-11"}');
    await client.ask("pause-tube newsletter 3600");
  }

  /** A worker that always has one job in hand. */
  async #work(tube: string): Promise<void> {
    const client = await this.#client();
    await client.ask(`watch ${tube}`);
    await client.ask("ignore default");
    let held = "";
    const step = async (): Promise<void> => {
      if (this.#hasEnded) return;
      const { line } = await client.ask("reserve-with-timeout 1");
      if (held !== "") await client.ask(`delete ${held}`);
      held = line.startsWith("RESERVED") ? line.split(" ")[1]! : "";
      setTimeout(() => void step().catch(() => {}), WORK_MS);
    };
    void step().catch(() => {});
  }

  async #produce(producer: WireClient): Promise<void> {
    for (const { name, workers, ttr } of TUBES) {
      await producer.ask(`use ${name}`);
      for (let i = 0; i < workers; i++) await producer.put(bodyOf(name, ++this.#number), { ttr });
    }
  }

  async stop(): Promise<void> {
    this.#hasEnded = true;
    clearInterval(this.#timer);
    await this.#turn?.catch(() => {});
    for (const client of this.#clients) client.close();
  }
}
