// Numbers of shards and acceptors with which our server must give the same replies.

export interface Topology {
  readonly shards: number;
  readonly acceptors: number;
}

const ALL: readonly Topology[] = [
  { shards: 1, acceptors: 1 },
  { shards: 4, acceptors: 1 },
  { shards: 7, acceptors: 3 },
];

/** All, or with TOPOLOGY=7x3 (or any other numbers) in the environment that one alone. */
const { TOPOLOGY } = process.env;
export const TOPOLOGIES: readonly Topology[] = TOPOLOGY === undefined ? ALL : [parseTopology(TOPOLOGY)];

/**
 * Topologies of running servers that transcripts are played against, each on its own server: the
 * smallest and the largest. transcripts-in-process plays them on those between as well.
 */
export const PLAYED_TOPOLOGIES: readonly Topology[] =
  TOPOLOGY === undefined ? ALL.filter(({ shards }) => shards !== 4) : TOPOLOGIES;

function parseTopology(text: string): Topology {
  const [, shards, acceptors] = /^([1-9]\d?)x([1-9]\d?)$/.exec(text) ?? [];
  if (shards === undefined) throw new Error(`TOPOLOGY=${text}: shards and acceptors are meant, as in 7x3`);
  return { shards: Number(shards), acceptors: Number(acceptors) };
}

export function topologyFlags({ shards, acceptors }: Topology): string[] {
  return ["--shards", `${shards}`, "--acceptors", `${acceptors}`];
}

export function topologyName({ shards, acceptors }: Topology): string {
  return `${shards} ${shards === 1 ? "shard" : "shards"}, ${acceptors} ${acceptors === 1 ? "acceptor" : "acceptors"}`;
}
