// Views that are sent again, most of them each second, to whoever looks: made once for all who ask for the same.
//
// A client that does not read is sent nothing until it has: a view is whole, so that the next one makes up for those it missed.

import type { Service } from "../../queue/service.ts";
import { VIEWS, type View } from "./dashboard-views.ts";

/** A view is no longer than this. */
export const VIEW_BYTES_MAX = 64 * 1024;
/** So often something is sent, so that proxies keep the connection. */
const COMMENT_EACH_MS = 15_000;
export const STREAMS_MAX = 100;
export const STREAMS_PER_CLIENT_MAX = 4;

/** The part of a response that is written to. */
export interface Sink {
  write(chunk: string): boolean;
  end(): void;
  readonly writableNeedDrain: boolean;
}

interface Stream {
  readonly sink: Sink;
  readonly client: string;
  /** Whether who opened it may still look. */
  readonly stands: () => boolean;
}

class Topic {
  readonly streams = new Set<Stream>();
  /** The last frame, for who comes between two. */
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

  /** Whether one stream more is served for a client. */
  hasRoom(client: string): boolean {
    return (
      !this.#stopped &&
      this.#streams < STREAMS_MAX &&
      (this.#byClient.get(client) ?? 0) < STREAMS_PER_CLIENT_MAX
    );
  }

  /** A view, once. Throws RangeError for a query that means nothing. */
  async view(name: string, query: Readonly<Record<string, string>>): Promise<object> {
    return await viewNamed(name).make(this.#service, query);
  }

  /** Sends a view again and again until the returned function is called, or until who opened it may look no more. */
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

  /** The next one begins its time after this one did, or when it is made if that takes longer. */
  #run(key: string, topic: Topic, name: string, query: Readonly<Record<string, string>>): void {
    const { eachMs } = viewNamed(name);
    const tick = async (): Promise<void> => {
      const beganMs = this.#service.nowMs();
      try {
        this.#send(topic, JSON.stringify(await this.view(name, query)));
      } catch {
        // The server stops, or is too busy to say: the page sees that nothing comes.
      }
      if (this.#topics.get(key) !== topic || this.#stopped) return;
      const restMs = eachMs - (this.#service.nowMs() - beganMs);
      topic.timer = setTimeout(() => void tick(), Math.max(0, restMs));
    };
    void tick();
  }

  #send(topic: Topic, text: string): void {
    for (const { sink, stands } of topic.streams) if (!stands()) sink.end();
    if (text.length > VIEW_BYTES_MAX) return;
    topic.last = `event: view\nid: ${++this.#number}\ndata: ${text}\n\n`;
    for (const { sink, stands } of topic.streams)
      if (!sink.writableNeedDrain && stands()) sink.write(topic.last);
    topic.quietSinceMs = this.#service.nowMs();
  }

  /** For proxies, where nothing could be made for a while. */
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

/** Throws RangeError where there is none. */
export function viewNamed(name: string): View {
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : undefined;
  if (view === undefined)
    throw new RangeError(`there is no view "${name}"; there are ${Object.keys(VIEWS).join(", ")}`);
  return view;
}
