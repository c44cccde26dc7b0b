// Our server with HTTP on a free port, and requests to it.

import { request } from "node:http";
import { eventually } from "../eventually.ts";
import { type ServerProcess, startServer } from "./server-process.ts";

export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Buffer;
  readonly text: string;
  /** The parsed JSON answer. */
  // biome-ignore lint/suspicious/noExplicitAny: a test says what it expects of it
  readonly json: any;
}

interface HttpQuestion {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** Sent as JSON. */
  readonly json?: unknown;
  readonly signal?: AbortSignal;
}

export class HttpServer {
  readonly process: ServerProcess;
  readonly port: number;

  constructor(process: ServerProcess, port: number) {
    this.process = process;
    this.port = port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Sends a request just as it is given: headers that fetch would refuse, too. */
  ask(path: string, question: HttpQuestion = {}): Promise<HttpAnswer> {
    const { json, method = question.body === undefined && json === undefined ? "GET" : "POST" } = question;
    const body = json === undefined ? question.body : JSON.stringify(json);
    const headers = {
      // Node says the length by itself, but not of a DELETE.
      ...(json === undefined
        ? {}
        : { "content-type": "application/json", "content-length": `${Buffer.byteLength(body as string)}` }),
      ...question.headers,
    };
    return new Promise((resolve, reject) => {
      const signal = question.signal === undefined ? {} : { signal: question.signal };
      const asked = request(
        { host: "127.0.0.1", port: this.port, path, method, headers, ...signal },
        (answer) => {
          const chunks: Buffer[] = [];
          answer.on("data", (chunk: Buffer) => chunks.push(chunk));
          answer.on("error", reject);
          answer.on("end", () => {
            const bytes = Buffer.concat(chunks);
            const text = bytes.toString();
            const isJson =
              answer.headers["content-encoding"] === undefined &&
              `${answer.headers["content-type"]}`.includes("json");
            resolve({
              status: answer.statusCode!,
              headers: answer.headers,
              bytes,
              text,
              json: isJson && text !== "" ? JSON.parse(text) : undefined,
            });
          });
        },
      );
      asked.on("error", reject);
      asked.end(body);
    });
  }
}

/** Starts a server and waits until it serves. */
export async function startHttpServer(...flags: string[]): Promise<HttpServer> {
  const process = await startServer({ kind: "ours", flags: ["--http", "127.0.0.1:0", ...flags] });
  const port = await eventually("the server serves", () => {
    if (process.hasExited) throw new Error(`The server has ended:\n${process.stderr}`);
    return Number(/ and http:\/\/[^ ]*?:([0-9]+) with/.exec(process.stderr)?.[1] ?? 0) || undefined;
  });
  return new HttpServer(process, port);
}
