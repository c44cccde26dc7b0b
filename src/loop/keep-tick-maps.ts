// Keeps process.nextTick fast in a thread that lives long.
//
// V8 holds the layouts (maps) of objects whose keys are computed only as long as there is such an object. Node makes one for each tick. A
// full collection between two ticks, when there is none, throws the layouts away; the next tick gets others, and V8, which has seen two
// now, defines each of its keys in the runtime from then on: 0.65 us a tick for 0.11, and a request over HTTP takes five ticks. So one
// is kept.

import { executionAsyncResource } from "node:async_hooks";

/** For as long as the thread lives. */
const kept: object[] = [];

/** To be called first of all in a thread, before there was a collection. */
export function keepTickMaps(): void {
  process.nextTick(() => {
    // Of a tick's callback that is the object that node has made of it.
    kept.push(executionAsyncResource());
  });
}
