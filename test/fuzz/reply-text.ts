// Splits a server's output into replies, and makes ids comparable between conversations.

import { bodyBytesOf } from "../support/server/wire-client.ts";

/** More than a conversation puts. */
const JOBS_MAX = 100_000;

export interface ReplyText {
  /** The first line, without CR LF. */
  readonly line: string;
  /** The body without its CR LF, for RESERVED, FOUND and OK. */
  readonly body: string | undefined;
}

interface CutReplies {
  readonly replies: readonly ReplyText[];
  /** Bytes at the end that form no whole reply. */
  readonly rest: string;
}

export function cutReplies(text: string): CutReplies {
  const replies: ReplyText[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) break;
    const line = text.slice(at, lineEnd);
    const batchEnd = endOfBatch(text, line, lineEnd + 2);
    if (batchEnd < 0) break;
    if (batchEnd > lineEnd + 2) {
      replies.push({ line, body: text.slice(lineEnd + 2, batchEnd - 2) });
      at = batchEnd;
      continue;
    }
    const bodyBytes = bodyBytesOf(line);
    if (bodyBytes === undefined) {
      replies.push({ line, body: undefined });
      at = lineEnd + 2;
      continue;
    }
    const bodyEnd = lineEnd + 2 + bodyBytes;
    if (text.length < bodyEnd + 2 || text.slice(bodyEnd, bodyEnd + 2) !== "\r\n") break;
    replies.push({ line, body: text.slice(lineEnd + 2, bodyEnd) });
    at = bodyEnd + 2;
  }
  return { replies, rest: text.slice(at) };
}

/**
 * Returns where the jobs of a RESERVED_BATCH that begin at `at` end; `at` if `line` is none, -1 if
 * they are not all there.
 */
function endOfBatch(text: string, line: string, at: number): number {
  const [, jobs = "0"] = /^RESERVED_BATCH (\d+)$/.exec(line) ?? [];
  let end = at;
  for (let left = Number(jobs); left > 0; left--) {
    const lineEnd = text.indexOf("\r\n", end);
    const [, bytes] =
      /^RESERVED \d+ (\d+)(?: [^ ]+)?$/.exec(lineEnd < 0 ? "" : text.slice(end, lineEnd)) ?? [];
    if (bytes === undefined) return -1;
    end = lineEnd + 2 + Number(bytes) + 2;
    if (text.length < end || text.slice(end - 2, end) !== "\r\n") return -1;
  }
  return end;
}

/** The reply as it would be on a server that had given out no id before the conversation. */
export function withRelativeIds(reply: ReplyText, lastId: number): ReplyText {
  if (reply.line.startsWith("OK ")) {
    // The number of bytes depends on how many digits the id has.
    const body = reply.body
      ?.replace(/^id: (\d+)$/m, (_, id: string) => `id: ${Number(id) - lastId}`)
      .replace(/^- \{"id":(\d+)/gm, (_, id: string) => `- {"id":${Number(id) - lastId}`)
      .replace(/^next: ([1-9]\d*)$/m, (_, id: string) => `next: ${Number(id) - lastId}`);
    return { line: "OK {int}", body };
  }
  if (reply.line.startsWith("RESERVED_BATCH ") || reply.line.startsWith("DELETED_BATCH "))
    return withRelativeBatch(reply, lastId);
  const line = reply.line.replace(
    /^(INSERTED|BURIED|RESERVED|FOUND) (\d+)/,
    (_, word: string, id: string) => `${word} ${Number(id) - lastId}`,
  );
  return { line, body: reply.body };
}

/** Ids stand in the lines of its jobs, or behind the counts. */
function withRelativeBatch({ line, body }: ReplyText, lastId: number): ReplyText {
  const relative = (id: string): string => `${Number(id) - lastId}`;
  const [word, first, second, ...ids] = line.split(" ") as [string, string, string | undefined, ...string[]];
  if (word === "DELETED_BATCH") {
    // They are as they were given: ids of jobs, or any number.
    const isOfJob = (id: string): boolean => Number(id) > lastId && Number(id) <= lastId + JOBS_MAX;
    const given = ids.map((id) => (isOfJob(id) ? relative(id) : id));
    return { line: [word, first, second, ...given].join(" "), body };
  }
  let rest = `${body}\r\n`;
  let text = "";
  while (rest !== "") {
    const lineEnd = rest.indexOf("\r\n");
    const [head, id = "", bytes = "", ...tube] = rest.slice(0, lineEnd).split(" ");
    const end = lineEnd + 2 + Number(bytes) + 2;
    text += [head, relative(id), bytes, ...tube].join(" ") + rest.slice(lineEnd, end);
    rest = rest.slice(end);
  }
  return { line, body: text.slice(0, -2) };
}

export function textOfReply({ line, body }: ReplyText): string {
  return body === undefined ? `${line}\r\n` : `${line}\r\n${body}\r\n`;
}
