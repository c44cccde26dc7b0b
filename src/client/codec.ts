// Codecs between a program's values and the bodies of jobs.

export interface Codec<Out, In = Out> {
  encode(value: In): Uint8Array;
  /** May throw. It is called when `job.body` is read, so the job can still be buried. */
  decode(bytes: Uint8Array): Out;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Default codec: bytes stay as they are, and text becomes UTF-8. */
export const plain: Codec<Uint8Array, Uint8Array | string> = {
  encode: (value) => (typeof value === "string" ? encoder.encode(value) : value),
  decode: (bytes) => bytes,
};

export const text = (): Codec<string> => ({
  encode: (value) => encoder.encode(value),
  decode: (bytes) => decoder.decode(bytes),
});

/** The producer promises the type; nothing checks it. */
export const json = <T>(): Codec<T> => ({
  encode: (value) => {
    const written = JSON.stringify(value);
    if (written === undefined) throw new TypeError("this value cannot be written as JSON");
    return encoder.encode(written);
  },
  decode: (bytes) => JSON.parse(decoder.decode(bytes)) as T,
});
