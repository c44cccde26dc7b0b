// The picture: clients, acceptors, rings, shards, log and disk of one moment.

import { type SVGTemplateResult, svg } from "lit-html";
import type { ClientPicture, LogPicture, RingPicture, ShardPicture, Snapshot } from "../snapshot.ts";
import {
  type Box,
  boxAt,
  fitting,
  HEIGHT,
  nameTop,
  ROW_NAMES,
  ROWS,
  type Wire,
  wireBetween,
} from "./geometry.ts";

/** Files shown, the newest. */
const FILES_SHOWN = 6;
/** Two directions between the same boxes are this far apart. */
const LANE = 5;
const BAR_HEIGHT = 8;

const STATES = ["ready", "reserved", "delayed", "buried", "moving"] as const;

/** Wires by the names of what they carry; the page moves messages along them. */
export type Wires = ReadonlyMap<string, Wire>;

export const requestWire = (acceptor: number, shard: number): string => `request ${acceptor} ${shard}`;
export const responseWire = (acceptor: number, shard: number): string => `response ${acceptor} ${shard}`;
export const recordWire = (shard: number): string => `record ${shard}`;
export const clientWire = (name: number): string => `client ${name}`;
export const DISK_WIRE = "disk";

const filesOf = (log: LogPicture): LogPicture["files"] =>
  [...log.files].sort((a, b) => (a.name < b.name ? -1 : 1)).slice(-FILES_SHOWN);

export function wiresOf(shown: Snapshot, width: number): Wires {
  const wires = new Map<string, Wire>();
  const { clients, acceptors, shards, log } = shown;
  const acceptorBox = (acceptor: number): Box => boxAt(1, acceptor, acceptors, width);
  const shardBox = (shard: number): Box => boxAt(2, shard, shards.length, width);
  for (const [index, { name, acceptor, isClosed }] of clients.entries())
    if (!isClosed)
      wires.set(clientWire(name), wireBetween(boxAt(0, index, clients.length, width), acceptorBox(acceptor)));
  for (let acceptor = 0; acceptor < acceptors; acceptor++)
    for (const shard of shards.keys()) {
      wires.set(requestWire(acceptor, shard), wireBetween(acceptorBox(acceptor), shardBox(shard), -LANE));
      wires.set(responseWire(acceptor, shard), wireBetween(acceptorBox(acceptor), shardBox(shard), LANE));
    }
  if (log === undefined) return wires;
  const logBox = boxAt(3, 0, 1, width);
  for (const shard of shards.keys()) wires.set(recordWire(shard), wireBetween(shardBox(shard), logBox));
  const files = filesOf(log).length;
  if (files > 0) wires.set(DISK_WIRE, wireBetween(logBox, boxAt(4, files - 1, files, width)));
  return wires;
}

export function pictureOf(shown: Snapshot, width: number): SVGTemplateResult {
  const { log, clients, acceptors, shards, running } = shown;
  return svg`
    ${ROWS.map((row) => svg`<text class="tier" x="0" y=${nameTop(row)}>${ROW_NAMES[row]}</text>`)}
    <g class=${shown.isHalted ? "dark" : ""}>
      ${[...wiresOf(shown, width)].map(([name, wire]) => wireOf(wire, fillOf(shown, name), shown.ringBytes))}
      ${clients.map((client, index) => clientOf(client, boxAt(0, index, clients.length, width)))}
      ${Array.from({ length: acceptors }, (_, acceptor) =>
        acceptorOf(acceptor, boxAt(1, acceptor, acceptors, width), isRunning(running, "acceptor", acceptor)),
      )}
      ${shards.map((shard, index) =>
        shardOf(shard, index, boxAt(2, index, shards.length, width), isRunning(running, "shard", index)),
      )}
      ${log === undefined ? noLog(width) : logOf(log, width, running === "binlog")}
    </g>`;
}

function isRunning(thread: string, role: string, index: number): boolean {
  if (!thread.startsWith(`${role} `)) return false;
  return thread
    .slice(role.length + 1)
    .split(", ")
    .includes(`${index}`);
}

const used = ({ tail, head }: RingPicture): number => (tail - head) | 0;

function fillOf(shown: Snapshot, wire: string): number {
  const [kind, a, b] = wire.split(" ");
  if (kind === "request") return used(shown.requests[Number(a)]![Number(b)]!);
  if (kind === "response") return used(shown.responses[Number(a)]![Number(b)]!);
  return kind === "record" ? used(shown.records[Number(a)]!) : 0;
}

/** A ring is the thicker the fuller it is. */
function wireOf({ x1, y1, x2, y2 }: Wire, bytes: number, ringBytes: number): SVGTemplateResult {
  const thickness = 1 + 5 * Math.min(1, bytes / ringBytes);
  return svg`<line class="wire" x1=${x1} y1=${y1} x2=${x2} y2=${y2} stroke-width=${thickness} />`;
}

function boxOf({ x, y, width, height }: Box, kind: string): SVGTemplateResult {
  return svg`<rect class="box ${kind}" x=${x} y=${y} width=${width} height=${height} rx="7" />`;
}

function textAt(box: Box, line: number, text: string, kind: string): SVGTemplateResult {
  const room = box.width - 12;
  const pixels = kind === "name" ? 7 : 5.9;
  return svg`<text class=${kind} x=${box.x + 7} y=${box.y + 17 + 15 * line}>${fitting(text, room, pixels)}</text>`;
}

function clientOf(client: ClientPicture, box: Box): SVGTemplateResult {
  const { name, isClosed, lastCommand, lastReply } = client;
  return svg`<g>
    <title>client ${name}: ${lastCommand} → ${lastReply}</title>
    ${boxOf(box, isClosed ? "gone" : "")}
    ${textAt(box, 0, box.width < 70 ? `${name}` : `client ${name}`, "name")}
    ${textAt(box, 1, isClosed ? "left" : lastCommand, "note")}
    ${textAt(box, 2, isClosed ? "" : lastReply, "note")}
  </g>`;
}

function acceptorOf(acceptor: number, box: Box, runs: boolean): SVGTemplateResult {
  return svg`<g>
    ${boxOf(box, runs ? "runs" : "")}
    ${textAt(box, 0, `acceptor ${acceptor}`, "name")}
    ${textAt(box, 1, runs ? "runs now" : "parses and routes", "note")}
  </g>`;
}

function shardOf(shard: ShardPicture, index: number, box: Box, runs: boolean): SVGTemplateResult {
  const jobs = STATES.reduce((sum, state) => sum + shard[state], 0);
  const scale = (box.width - 14) / Math.max(12, jobs);
  let x = box.x + 7;
  const parts = STATES.map((state) => {
    const width = shard[state] * scale;
    const part = svg`<rect class=${state} x=${x} y=${box.y + 41} width=${width} height=${BAR_HEIGHT} rx="2" />`;
    x += width;
    return part;
  });
  const title = STATES.map((state) => `${shard[state]} ${state}`).join(", ");
  return svg`<g>
    <title>shard ${index}: ${title}</title>
    ${boxOf(box, runs ? "runs" : "")}
    ${textAt(box, 0, box.width < 62 ? `${index}` : `shard ${index}`, "name")}
    ${textAt(box, 1, box.width < 62 ? `${jobs}` : `${jobs} ${jobs === 1 ? "job" : "jobs"}`, "note")}
    <rect class="bar" x=${box.x + 7} y=${box.y + 41} width=${box.width - 14} height=${BAR_HEIGHT} rx="2" />
    ${parts}
  </g>`;
}

function noLog(width: number): SVGTemplateResult {
  const box = boxAt(3, 0, 1, width);
  return svg`${boxOf(box, "gone")}${textAt(box, 0, "no log in this run", "name")}
    ${textAt(box, 1, "Half of all seeds keep jobs in memory only.", "note")}`;
}

function logOf(log: LogPicture, width: number, runs: boolean): SVGTemplateResult {
  const box = boxAt(3, 0, 1, width);
  const files = filesOf(log);
  const isBad = log.state === "failed" || log.state === "waits for room" || log.state === "is full";
  const unsynced = log.made - log.synced;
  return svg`
    ${boxOf(box, isBad ? "bad" : runs ? "runs" : "")}
    ${textAt(box, 0, isBad || log.state === "closed" ? `the log ${log.state}` : "log thread", "name")}
    ${textAt(box, 1, `${log.synced} of ${log.made} records synced${unsynced > 0 ? `, ${unsynced} to go` : ""}`, "note")}
    ${files.map((file, index) => fileOf(file, boxAt(4, index, files.length, width)))}`;
}

function fileOf({ name, bytes, pendingBytes }: LogPicture["files"][number], box: Box): SVGTemplateResult {
  const barWidth = box.width - 14;
  const pending = bytes === 0 ? 0 : barWidth * Math.min(1, pendingBytes / bytes);
  return svg`<g>
    <title>${name}: ${bytes} bytes, ${pendingBytes} of them not synced</title>
    ${boxOf(box, "")}
    ${textAt(box, 0, name.replace(/^\D*0*(\d+).*$/, "segment $1"), "name")}
    ${textAt(box, 1, `${Math.ceil(bytes / 1024)} KiB`, "note")}
    <rect class="synced" x=${box.x + 7} y=${box.y + 48} width=${barWidth} height=${BAR_HEIGHT} rx="2" />
    <rect class="delayed" x=${box.x + 7 + barWidth - pending} y=${box.y + 48} width=${pending} height=${BAR_HEIGHT} rx="2" />
  </g>`;
}

export { HEIGHT };
