// Flow control of replies: limits how far a shard may be ahead of what a client has read, so that
// small commands cannot pile up large replies.
//
// The shard counts the bytes that it sends. With each command, the acceptor reports how many of
// them the client has read, and it sends a Credit message if there is no command. While
// UnreadBytesMax or more are unread, the shard starts no further command of the connection. Bytes
// count as read when the transport has passed them to the kernel.
//
// There is no deadlock: the acceptor sends Credit when everything has been read and StepBytes or
// more are unreported. So either the shard knows of all but StepBytes of the bytes that it sent,
// which is less than UnreadBytesMax, or Credit comes.

const KIB = 1024;

export const ReplyCredit = {
  /**
   * Unread reply bytes at which the next command waits in the shard. The last reply may exceed it.
   */
  UnreadBytesMax: 32 * KIB,
  /** The same limit while a reply longer than WholeReplyBytesMax is sent in pieces. */
  LongUnreadBytesMax: 128 * KIB,
  /** Longer replies go in pieces, as the client reads. */
  WholeReplyBytesMax: 128 * KIB,
  /** Bytes read that are reported without a command. */
  StepBytes: 16 * KIB,
} as const;
