declare module "runnerbean:parts" {
  const parts: import("./parts.ts").Parts;
  export const read: typeof parts.read;
  export const isReadable: typeof parts.isReadable;
  export const threadOf: typeof parts.threadOf;
  export const provide: typeof parts.provide;
}
