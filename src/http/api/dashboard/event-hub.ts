// Event streams of the dashboard's views. Most views are rebuilt every second, once for all clients
// that watch the same one.
//
// It sends nothing to a client that does not read. Each view is complete, so the next one replaces
// those that the client missed. Instead of a view above the size limit, it sends an event that says
// so: a page that waits in silence would look as if the server hung.

import type { Service } from "../../queue/service.ts";
import { VIEWS, type View } from "./dashboard-views.ts";

/** Maximum size of a view. */
export const VIEW_BYTES_MAX = 64 * 1024;
/** Interval of keep-alive comments, which stop proxies from closing the stream. */
const COMMENT_EACH_MS = 15_000;
export const STREAMS_MAX = 100;
export const STREAMS_PER_CLIENT_MAX = 4;

/** The part of a response that a stream uses. */
export interface Sink {
  write(chunk: string): boolean;
  end(): void;
  readonly writableNeedDrain: boolean;
}

interface Stream {
  readonly sink: Sink;
  readonly client: string;
  /** Tells whether the client's token is still valid. */
  readonly stands: () => boolean;
}

class Topic {
  readonly streams = new Set<Stream>();
  /** Latest frame, sent at once to new streams. */
  last = "";
  timer: NodeJS.Timeout | undefined;
  quietSinceMs = 0;
}

export class EventHub {
  readonly #service: Service;
  readonly #topics = new Map<string, Topic>();
  readonly #byClient = new Map<string, number>();
  #streams = 0;
  #number = 0;
  #stopped = false;

  constructor(service: Service) {
    this.#service = service;
  }

  /** Tells whether the client may open another stream. */
  hasRoom(client: string): boolean {
    return (
      !this.#stopped &&
      this.#streams < STREAMS_MAX &&
      (this.#byClient.get(client) ?? 0) < STREAMS_PER_CLIENT_MAX
    );
  }

  /** Builds a view once. Throws RangeError if the query is invalid. */
  async view(name: string, query: Readonly<Record<string, string>>): Promise<object> {
    return await viewNamed(name).make(this.#service, query);
  }

  /**
   * Sends a view repeatedly until the returned function is called or the client's token is no
   * longer valid.
   */
  open(
    client: string,
    name: string,
    query: Readonly<Record<string, string>>,
    sink: Sink,
    stands: () => boolean = () => true,
  ): () => void {
    const key = JSON.stringify([name, Object.entries(query).sort()]);
    let topic = this.#topics.get(key);
    if (topic === undefined) {
      topic = new Topic();
      this.#topics.set(key, topic);
      this.#run(key, topic, name, query);
    }
    const stream = { sink, client, stands };
    topic.streams.add(stream);
    this.#streams++;
    this.#service.state.streams++;
    this.#byClient.set(client, (this.#byClient.get(client) ?? 0) + 1);
    if (topic.last !== "") sink.write(topic.last);
    return () => this.#close(key, topic, stream);
  }

  #close(key: string, topic: Topic, stream: Stream): void {
    if (!topic.streams.delete(stream)) return;
    this.#streams--;
    this.#service.state.streams--;
    const left = this.#byClient.get(stream.client)! - 1;
    if (left === 0) this.#byClient.delete(stream.client);
    else this.#byClient.set(stream.client, left);
    if (topic.streams.size > 0) return;
    clearTimeout(topic.timer);
    this.#topics.delete(key);
  }

  /**
   * Runs a topic at its interval, measured from start to start. A slow build delays the next one.
   */
  #run(key: string, topic: Topic, name: string, query: Readonly<Record<string, string>>): void {
    const { eachMs } = viewNamed(name);
    const tick = async (): Promise<void> => {
      const beganMs = this.#service.nowMs();
      try {
        this.#send(topic, JSON.stringify(await this.view(name, query)));
      } catch {
        // The server is stopping or overloaded. The page notices that no view arrives.
      }
      if (this.#topics.get(key) !== topic || this.#stopped) return;
      const restMs = eachMs - (this.#service.nowMs() - beganMs);
      topic.timer = setTimeout(() => void tick(), Math.max(0, restMs));
    };
    void tick();
  }

  #send(topic: Topic, text: string): void {
    for (const { sink, stands } of topic.streams) if (!stands()) sink.end();
    const [event, data] = Buffer.byteLength(text) > VIEW_BYTES_MAX ? ["unsent", UNSENT] : ["view", text];
    topic.last = `event: ${event}\nid: ${++this.#number}\ndata: ${data}\n\n`;
    for (const { sink, stands } of topic.streams)
      if (!sink.writableNeedDrain && stands()) sink.write(topic.last);
    topic.quietSinceMs = this.#service.nowMs();
  }

  /** Sends comments to streams that have been silent for too long. */
  comment(): void {
    for (const topic of this.#topics.values())
      if (this.#service.nowMs() - topic.quietSinceMs >= COMMENT_EACH_MS)
        for (const { sink } of topic.streams) if (!sink.writableNeedDrain) sink.write(":\n\n");
  }

  stop(): void {
    this.#stopped = true;
    for (const topic of this.#topics.values()) {
      clearTimeout(topic.timer);
      for (const { sink } of topic.streams) sink.end();
    }
  }
}

/** Always the same, or a screen reader would read it out each second. */
const UNSENT = JSON.stringify({
  detail: `This page has more to show than the ${VIEW_BYTES_MAX / 1024} KiB that the server sends at a time. If it has a filter, use it to show less.`,
});

/** Throws RangeError if there is no such view. */
export function viewNamed(name: string): View {
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  if (view === undefined)
    throw new RangeError(`there is no view "${name}"; use ${Object.keys(VIEWS).join(", ")}`);
  return view;
}
