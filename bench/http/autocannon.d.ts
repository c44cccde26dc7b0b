declare module "autocannon" {
  export interface Result {
    readonly requests: { readonly average: number; readonly total: number };
    readonly latency: { readonly p50: number; readonly p99: number };
    readonly non2xx: number;
    readonly errors: number;
    readonly duration: number;
  }
  export interface Client {
    setBody(body: string | Buffer): void;
    setHeadersAndBody(headers: Record<string, string>, body: string | Buffer): void;
  }
  export interface RequestOf {
    readonly method: string;
    readonly path: string;
    readonly headers?: Record<string, string>;
    readonly body?: string | Buffer;
    onResponse?(status: number, body: string, context: Record<string, unknown>): void;
    setupRequest?(request: RequestOf, context: Record<string, unknown>): RequestOf;
  }
  export interface Options {
    readonly url: string;
    readonly connections: number;
    readonly pipelining?: number;
    readonly duration: number;
    readonly requests?: readonly RequestOf[];
  }
  export default function autocannon(options: Options): Promise<Result>;
}
