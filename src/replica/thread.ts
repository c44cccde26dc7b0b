// Entry point of a group's worker thread: a node in its event loop, and the orders of the main
// thread.

import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import type { Topology } from "../message/topology.ts";
import { GroupNode } from "./group-node.ts";
import type { GroupNodeOptions, NodeNews } from "./node-state.ts";

export interface GroupThreadData {
  topology: Topology;
  options: GroupNodeOptions;
  /** The port to the log's thread. */
  port: MessagePort;
}

/**
 * Orders of the main thread: begin; clients are being served; report when everything is
 * acknowledged.
 */
export type NodeOrder = "start" | "serves" | "drain";

const { topology, options, port } = workerData as GroupThreadData;
const node = new GroupNode(options, topology, port, (news: NodeNews) => parentPort!.postMessage(news));
parentPort!.on("message", (order: NodeOrder) => {
  if (order === "start") void node.start();
  else if (order === "serves") node.serves();
  else node.drain();
});
