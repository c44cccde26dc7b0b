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
    await this.#flows(producer);
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

  /** Schedules, and batches in all states. */
  async #flows(client: WireClient): Promise<void> {
    const set = (name: string, tube: string, timing: string) =>
      client.ask(`set-schedule ${name} ${tube} 0 0 600 2 ${timing}\r\n{}`);
    await set("nightly-sales", "reports", "cron=30_2_*_*_MON-FRI tz=Europe/Berlin");
    await set("heartbeat", "monitoring", "every=10 missed=none");
    await set("month-end", "invoices-later", "cron=0_6_L_*_* tz=America/New_York");
    await client.ask("pause-schedule month-end");
    for (const [name, members, done, failed, end] of [
      ["import-2026-11-22", 12, 12, 0, "commit"],
      ["import-2026-11-23", 40, 25, 3, "commit"],
      ["newsletter-2026-11", 8, 5, 3, "commit"],
      ["recount", 6, 1, 0, "cancel"],
      ["still-open", 4, 0, 0, ""],
    ] as const) {
      await client.ask(`open-batch ${name}`);
      await client.ask(`put-in-tube follow-ups 0 0 60 2 after=${name}\r\n{}`);
      const ids: string[] = [];
      for (let n = 0; n < members; n++) {
        const { line } = await client.ask(`put-in-tube rows 0 0 60 2 batch=${name}\r\n{}`);
        ids.push(line.split(" ")[1]!);
      }
      for (const id of ids.slice(0, done)) {
        await client.ask(`reserve-job ${id}`);
        await client.ask(`delete ${id}`);
      }
      // A member that is deleted by anybody but its worker has failed.
      for (const id of ids.slice(done, done + failed)) await client.ask(`delete ${id}`);
      if (end !== "") await client.ask(`${end}-batch ${name}`);
    }
    await this.#troubledBatch(client);
  }

  /** A batch whose members are buried, dead, with a worker, and in several tubes. */
  async #troubledBatch(client: WireClient): Promise<void> {
    const put = async (options: string, tube = "rows"): Promise<string> =>
      (await client.ask(`put-in-tube ${tube} 0 0 3600 2 ${options}\r\n{}`)).line.split(" ")[1]!;
    await client.ask("open-batch import-stuck");
    await put("after=import-stuck", "follow-ups");
    await put("after-any=import-stuck", "clean-up");
    for (let n = 0; n < 4; n++) {
      const id = await put("batch=import-stuck");
      await client.ask(`reserve-job ${id}`);
      await client.ask(`bury ${id} 0 reason=row%20${n}:%20no%20such%20customer`);
    }
    for (let n = 0; n < 3; n++) await put("batch=import-stuck", "thumbnails-later");
    const dead = await put("batch=import-stuck", "sync");
    await client.ask(`reserve-job ${dead}`);
    await client.ask(`release ${dead} 0 0 reason=SMTP%20550:%20no%20such%20user`);
    await client.ask(`reserve-job ${await put("batch=import-stuck")}`);
    await client.ask("commit-batch import-stuck");
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
