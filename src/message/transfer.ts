// Messages between shards about jobs that move from one to another. Shards have no rings to each
// other: an acceptor relays the messages (Carry in response.ts, Carried in request.ts), in the
// order of the log.
//
// A transfer is a number of jobs for one tube, at most TRANSFER_BYTES_MAX with their bodies, or a
// single job of any size. The sender assigns its number.
//
//   Begin     offset  0  uint8    Travel
//             offset  1  uint8    flags: TransferFlag
//             offset  2  uint16   length of the tube's name
//             offset  4  uint32   jobs
//             offset  8  float64  delayMs, if the flags include Delay
//             offset 16  the tube's name, then the jobs; of a job in pieces only its
//                        TRANSFER_JOB_HEADER_BYTES:
//                          uint32   length of the record, without the body if it goes in pieces
//                          uint32   number of the log file with its full record
//                          a PUT record (record.ts) with its body, without the tube's name, in
//                          monotonic times
//   Piece     the next bytes of the record of the only job
//   Credit    confirms a piece
//   Landed    offset  0  uint32   how many of the first jobs were taken
//             offset  4  uint8    why the rest were not: an Outcome

export const TransferMessage = {
  Begin: 1,
  Piece: 2,
  Credit: 3,
  Landed: 4,
  // Of schedules: message/schedule-claim.ts.
  ClaimName: 5,
  YieldName: 6,
  EndClaim: 7,
  /** About batches: see flow.ts. */
  BatchState: 8,
  BatchReport: 9,
  BatchIdle: 10,
} as const;
export type TransferMessage = (typeof TransferMessage)[keyof typeof TransferMessage];

export const TransferFlag = { AsReady: 1, Delay: 2, InPieces: 4 } as const;

export const TRANSFER_HEADER_BYTES = 16;
/** Bytes before each job of a transfer. */
export const TRANSFER_JOB_HEADER_BYTES = 8;
export const LANDED_BYTES = 5;
/** Limits of a transfer of several jobs. */
export const TRANSFER_JOBS_MAX = 256;
export const TRANSFER_BYTES_MAX = 32 * 1024;

/** The header of Begin, at the beginning of `view`. */
export const TransferView = {
  write(
    view: DataView,
    travel: number,
    flags: number,
    tubeBytes: number,
    jobs: number,
    delayMs: number,
  ): void {
    view.setUint8(0, travel);
    view.setUint8(1, flags);
    view.setUint16(2, tubeBytes, true);
    view.setUint32(4, jobs, true);
    view.setFloat64(8, delayMs, true);
  },
  travel: (view: DataView): number => view.getUint8(0),
  flags: (view: DataView): number => view.getUint8(1),
  tubeBytes: (view: DataView): number => view.getUint16(2, true),
  jobs: (view: DataView): number => view.getUint32(4, true),
  delayMs: (view: DataView): number => view.getFloat64(8, true),
};

/** The header of a job in Begin. */
export const TransferJobView = {
  write(view: DataView, at: number, recordBytes: number, file: number): void {
    view.setUint32(at, recordBytes, true);
    view.setUint32(at + 4, file, true);
  },
  recordBytes: (view: DataView, at: number): number => view.getUint32(at, true),
  file: (view: DataView, at: number): number => view.getUint32(at + 4, true),
};

/** Landed. */
export const LandedView = {
  write(view: DataView, at: number, taken: number, refusal: number): void {
    view.setUint32(at, taken, true);
    view.setUint8(at + 4, refusal);
  },
  taken: (view: DataView, at: number): number => view.getUint32(at, true),
  refusal: (view: DataView, at: number): number => view.getUint8(at + 4),
};
