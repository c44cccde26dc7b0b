// The texts that clients wrote into a job: who may read only states and counts sees none of them.

import type { JobOptions } from "./control.ts";

interface JobTexts {
  readonly options: JobOptions | undefined;
  readonly failures: readonly { readonly reason: string }[];
  readonly body: Uint8Array | undefined;
}

/**
 * Returns facts about a job without its texts: body, metadata, unique key, group and the reasons of
 * its failures. Over HTTP and on the wire, this function alone decides what is a text.
 */
export function withoutTexts<Facts extends JobTexts>(facts: Facts): Facts {
  const { options, failures } = facts;
  return {
    ...facts,
    options:
      options === undefined ? undefined : { ...options, meta: [], unique: undefined, group: undefined },
    failures: failures.map((failure) => ({ ...failure, reason: "" })),
    body: undefined,
  };
}
