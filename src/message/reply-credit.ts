// How far a shard may be ahead of what a client has read, so that small commands never make a large heap of
// replies.
//
// The shard counts the bytes that it sends, the acceptor tells with each command how many of them the client
// has read, and with Credit when no command comes. With UNREAD bytes or more not read the shard begins no
// further command of the connection. What counts as read is what the transport has handed to the kernel.
//
// Why nobody waits for ever: the acceptor sends Credit when all has been read and it has not told of STEP
// bytes or more. Then either the shard knows of all but STEP of the bytes that it sent, and STEP is less than
// UNREAD, or Credit comes.

const KIB = 1024;

export const ReplyCredit = {
  /**
   * Bytes of replies not read at which the next command waits in the shard; the last reply comes on top of
   * them.
   */
  UnreadBytesMax: 32 * KIB,
  /** The same while a reply longer than WholeReplyBytesMax is sent in pieces. */
  LongUnreadBytesMax: 128 * KIB,
  /** A longer reply goes in pieces as its client reads. */
  WholeReplyBytesMax: 128 * KIB,
  /** How much must have been read before it is told without a command. */
  StepBytes: 16 * KIB,
} as const;
