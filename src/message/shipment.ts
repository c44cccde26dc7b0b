// What shards say to each other of jobs that move from one to another. There are no rings between them: an acceptor carries it
// (Carry in response.ts, Carried in request.ts), in the order of the log.
//
// A shipment is some jobs for one tube, at most SHIPMENT_BYTES_MAX with their bodies, or a single job of any size. Its number is
// the sender's.
//
//   Ship      offset  0  uint8    Travel
//             offset  1  uint8    flags: ShipFlag
//             offset  2  uint16   length of the tube's name
//             offset  4  uint32   jobs
//             offset  8  float64  delayMs, if the flags say that there is one
//             offset 16  the tube's name, then the jobs, or of a single one that comes in pieces only their PARCEL_HEADER_BYTES:
//                          uint32   length of the record; of one that comes in pieces without its body
//                          uint32   number of the log file with its full record
//                          a PUT record (record.ts) with its body, without the tube's name, of monotonic times
//   Piece     the next bytes of the record of the only job
//   Credit    a piece has been taken
//   Landed    offset  0  uint32   how many jobs were taken, the first ones
//             offset  4  uint8    why not the rest: an Outcome

export const Shipping = { Ship: 1, Piece: 2, Credit: 3, Landed: 4 } as const;
export type Shipping = (typeof Shipping)[keyof typeof Shipping];

export const ShipFlag = { AsReady: 1, Delay: 2, InPieces: 4 } as const;

export const SHIP_HEADER_BYTES = 16;
/** Before each job of a shipment. */
export const PARCEL_HEADER_BYTES = 8;
export const LANDED_BYTES = 5;
/** Of a shipment of several jobs. */
export const SHIPMENT_JOBS_MAX = 256;
export const SHIPMENT_BYTES_MAX = 32 * 1024;
