// States of a job, by their words in the protocol.

export type State = "ready" | "reserved" | "delayed" | "buried" | "moving";
