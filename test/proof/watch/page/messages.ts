// Messages that move along the wires of the picture: what has been published between two moments.

import type { Snapshot } from "../snapshot.ts";
import type { Wire } from "./geometry.ts";
import { clientWire, DISK_WIRE, recordWire, requestWire, responseWire, type Wires } from "./picture.ts";

interface Message {
  readonly wire: Wire;
  readonly kind: "request" | "reply" | "record";
}

/** Returns what moves between two pictures of one process. */
export function messagesBetween(before: Snapshot, after: Snapshot, wires: Wires): Message[] {
  if (before.process !== after.process) return [];
  const moved: Message[] = [];
  const add = (name: string, kind: Message["kind"]): void => {
    const wire = wires.get(name);
    if (wire !== undefined) moved.push({ wire: kind === "reply" ? turned(wire) : wire, kind });
  };
  for (const client of after.clients) {
    const then = before.clients.find(({ name }) => name === client.name);
    if (client.commands > (then?.commands ?? 0)) add(clientWire(client.name), "request");
    if (client.replies > (then?.replies ?? 0)) add(clientWire(client.name), "reply");
  }
  for (let acceptor = 0; acceptor < after.acceptors; acceptor++)
    for (const shard of after.shards.keys()) {
      if (after.requests[acceptor]![shard]!.tail !== before.requests[acceptor]![shard]!.tail)
        add(requestWire(acceptor, shard), "request");
      if (after.responses[acceptor]![shard]!.tail !== before.responses[acceptor]![shard]!.tail)
        add(responseWire(acceptor, shard), "reply");
    }
  for (const shard of after.records.keys())
    if (after.records[shard]!.tail !== before.records[shard]!.tail) add(recordWire(shard), "record");
  if ((after.log?.written ?? 0) > (before.log?.written ?? 0)) add(DISK_WIRE, "record");
  return moved;
}

const turned = ({ x1, y1, x2, y2 }: Wire): Wire => ({ x1: x2, y1: y2, x2: x1, y2: y1 });

const SVG = "http://www.w3.org/2000/svg";
/** More at once would be a cloud. */
const DOTS_MAX = 120;

/** Moves each message along its wire once. */
export function animate(layer: SVGGElement, messages: readonly Message[], durationMs: number): void {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const { wire, kind } of messages) {
    if (layer.childElementCount >= DOTS_MAX) return;
    const dot = document.createElementNS(SVG, "circle");
    dot.setAttribute("class", `dot ${kind}`);
    dot.setAttribute("r", "4.5");
    layer.append(dot);
    const at = (x: number, y: number): Keyframe => ({ transform: `translate(${x}px, ${y}px)` });
    const animation = dot.animate([at(wire.x1, wire.y1), at(wire.x2, wire.y2)], {
      duration: durationMs,
      easing: "ease-in-out",
    });
    animation.onfinish = () => dot.remove();
  }
}
