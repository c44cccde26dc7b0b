// Rebuilds a redirected command from the shard's message.

import { DELETED_HEADER_BYTES } from "../../message/deleted.ts";
import { REDIRECTED_HEADER_BYTES, RedirectedView } from "../../message/response.ts";
import { Op } from "../../protocol/commands.ts";
import { Request } from "../../protocol/request.ts";
import type { Signal } from "./conversation.ts";
import type { BegunBatch } from "./delete-batch.ts";

/** Returns the command, with its own copies of all bytes. */
export function redirectedRequest(signal: Signal): Request {
  const { payload } = signal;
  const { bytes, start } = payload;
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  const word = view.getUint32(8, true);
  const request = new Request().begin(word & 0xff);
  request.id = RedirectedView.id(signal);
  request.pri = RedirectedView.pri(signal);
  request.delaySeconds = view.getUint32(12, true);
  const optionsAt = start + REDIRECTED_HEADER_BYTES;
  const optionsEnd = optionsAt + (word >>> 8);
  request.options.set(bytes.slice(optionsAt, optionsEnd), 0, optionsEnd - optionsAt);
  if (request.op === Op.DeleteBatch) {
    const idsAt = optionsEnd + DELETED_HEADER_BYTES + view.getUint32(optionsEnd - start + 4, true);
    request.ids.set(bytes.slice(idsAt, payload.end), 0, payload.end - idsAt);
  } else request.body.set(bytes.slice(optionsEnd, payload.end), 0, payload.end - optionsEnd);
  return request;
}

/** Returns the part of a delete-batch that the shard has already done. */
export function begunBatch({ shard, payload }: Signal): BegunBatch {
  const { bytes, start } = payload;
  const at = start + REDIRECTED_HEADER_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset + at);
  const resultsAt = at + DELETED_HEADER_BYTES;
  const results = bytes.slice(resultsAt, resultsAt + view.getUint32(4, true));
  return { shard, recordNumber: view.getUint32(0, true), results };
}
