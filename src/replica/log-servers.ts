// Diagnoses the log servers of a group from the state that the stream's leader reports, for
// `runnerbean replica check`.

export interface StreamServers {
  leader: string;
  replicas: number;
  /** The other replicas, as the leader sees them. */
  peers: readonly { name: string; offline: boolean; current: boolean; lag?: number; active?: number }[];
}

/** A peer that answered within this time is up. Nanoseconds. */
const SILENT_NS_MAX = 10e9;
/** Up to this many messages in flight are normal. */
const LAG_MAX = 100;

/** Returns a line per problem, with its remedy. */
export function streamProblems({ leader, replicas, peers }: StreamServers): string[] {
  const problems: string[] = [];
  if (replicas < 3) problems.push(`the stream has ${replicas} replica: if that server dies, the group stops`);
  if (leader === "")
    problems.push(
      "the stream has no leader, so nothing is acknowledged: a majority of its log servers must run, with JetStream on",
    );
  for (const { name, offline, current, lag = 0, active = 0 } of peers) {
    if (offline || active > SILENT_NS_MAX)
      problems.push(
        `log server ${name} does not take part: it is down, or its JetStream is off; nats-server turns that off when its disk is full: make room, then start it again`,
      );
    else if (!current && lag > LAG_MAX) problems.push(`log server ${name} is ${lag} messages behind`);
  }
  const known = peers.length + (leader === "" ? 0 : 1);
  if (leader !== "" && known < replicas)
    problems.push(`the stream is on ${known} of ${replicas} log servers`);
  return problems;
}

/** The answer of a log server's monitoring port at /jsz. */
export interface Jsz {
  disabled?: boolean;
  config?: { sync_always?: boolean };
}

/** Returns a problem, or undefined if the server is fine. */
export function serverProblem({ disabled, config }: Jsz): string | undefined {
  if (disabled === true || config === undefined)
    return "JetStream is off: nats-server turns it off when its disk is full; make room, then start it again";
  if (config.sync_always !== true)
    return 'does not always sync: set "sync_interval: always" in its jetstream block';
  return undefined;
}
