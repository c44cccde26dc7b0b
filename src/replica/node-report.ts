// What a node says of itself when it is asked: one line of JSON.

export type NodeRole = "starting" | "standby" | "opening" | "primary";

export interface NodeReport {
  node: number;
  role: NodeRole;
  address: string;
  epoch: number;
  /** The last batch in its log, and its tag. */
  n: number;
  tag: number;
  /** Of a primary: whether it may serve, and what is not acknowledged. */
  mayServe: boolean;
  pendingBatches: number;
  messagesUnderWay: number;
  doubts: number;
  ignored: number;
  /** Of a standby: whether its log has all that counts, and how many messages it is behind. */
  isComplete: boolean;
  behind: number;
  pid: number;
  version: string;
}

export function parseReport(text: string): NodeReport | undefined {
  try {
    const report = JSON.parse(text) as NodeReport;
    return typeof report.node === "number" && typeof report.address === "string" ? report : undefined;
  } catch {
    return undefined;
  }
}
