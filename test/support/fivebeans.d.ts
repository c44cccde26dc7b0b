// Types of the npm client `fivebeans` as far as the tests use them; it brings none.

declare module "fivebeans" {
  import type { EventEmitter } from "node:events";

  export class client extends EventEmitter {
    constructor(host: string, port: number);
    connect(): void;
    end(): void;
    /** Every command takes its arguments and a callback (error, ...results). */
    [command: string]: (...args: never[]) => void;
  }
}
