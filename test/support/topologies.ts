// The numbers of shards and acceptors at which our server must give the same replies.

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
}

export const TOPOLOGIES: readonly Topology[] = [
  { shards: 1, acceptors: 1 },
  { shards: 4, acceptors: 1 },
  { shards: 7, acceptors: 3 },
];

export function topologyFlags({ shards, acceptors }: Topology): string[] {
  return ["--shards", `${shards}`, "--acceptors", `${acceptors}`];
}

export function topologyName({ shards, acceptors }: Topology): string {
  return `${shards} ${shards === 1 ? "shard" : "shards"}, ${acceptors} ${acceptors === 1 ? "acceptor" : "acceptors"}`;
}
