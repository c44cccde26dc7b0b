// Cuts what a server sent into replies, and makes ids comparable between conversations.

import { bodyBytesOf } from "../support/wire-client.ts";

export interface ReplyText {
  /** The first line, without CR LF. */
  readonly line: string;
  /** The body without its CR LF, for RESERVED, FOUND and OK. */
  readonly body: string | undefined;
}

export interface CutReplies {
  readonly replies: readonly ReplyText[];
  /** Bytes at the end that are no whole reply. */
  readonly rest: string;
}

export function cutReplies(text: string): CutReplies {
  const replies: ReplyText[] = [];
  let at = 0;
  for (;;) {
    const lineEnd = text.indexOf("\r\n", at);
    if (lineEnd < 0) break;
    const line = text.slice(at, lineEnd);
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
  const line = reply.line.replace(
    /^(INSERTED|BURIED|RESERVED|FOUND) (\d+)/,
    (_, word: string, id: string) => `${word} ${Number(id) - lastId}`,
  );
  return { line, body: reply.body };
}

export function textOfReply({ line, body }: ReplyText): string {
  return body === undefined ? `${line}\r\n` : `${line}\r\n${body}\r\n`;
}
