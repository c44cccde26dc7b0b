// The states of a job, by their words on the wire.

export type State = "ready" | "reserved" | "delayed" | "buried" | "moving";
