// The numbers of shards and acceptors at which our server must give the same replies.

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
}

const ALL: readonly Topology[] = [
  { shards: 1, acceptors: 1 },
  { shards: 4, acceptors: 1 },
  { shards: 7, acceptors: 3 },
];

/** All, or with TOPOLOGY=7x3 in the environment that one alone. */
const { TOPOLOGY } = process.env;
export const TOPOLOGIES: readonly Topology[] = ALL.filter(
  ({ shards, acceptors }) => TOPOLOGY === undefined || TOPOLOGY === `${shards}x${acceptors}`,
);
if (TOPOLOGIES.length === 0) throw new Error(`TOPOLOGY=${TOPOLOGY} is none of 1x1, 4x1, 7x3`);

export function topologyFlags({ shards, acceptors }: Topology): string[] {
  return ["--shards", `${shards}`, "--acceptors", `${acceptors}`];
}

export function topologyName({ shards, acceptors }: Topology): string {
  return `${shards} ${shards === 1 ? "shard" : "shards"}, ${acceptors} ${acceptors === 1 ? "acceptor" : "acceptors"}`;
}
