// The rooms of the engine, and those that each may import from.

/** As MAY_IMPORT in room-imports.ts, of which it is a part. */
export const ENGINE_MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "engine/jobs": ["protocol", "base"],
  "engine/queues": ["engine/jobs", "base"],
  "engine/tubes": ["engine/queues", "engine/jobs", "base"],
  "engine/flows": ["engine/queues", "engine/jobs", "protocol", "base"],
  "engine/waiting": ["engine/tubes", "engine/queues", "engine/jobs", "protocol", "base"],
  "engine/state": [
    "engine/flows",
    "engine/waiting",
    "engine/tubes",
    "engine/queues",
    "engine/jobs",
    "protocol",
    "base",
  ],
  "engine/policies": [
    "engine/state",
    "engine/flows",
    "engine/tubes",
    "engine/queues",
    "engine/jobs",
    "protocol",
    "base",
  ],
  "engine/schedules": ["engine/queues", "engine/jobs", "protocol", "base"],
  "engine/transfer": [],
  "engine/walks": ["engine/tubes", "engine/queues", "engine/jobs", "base"],
  engine: [
    "engine/schedules",
    "engine/walks",
    "engine/transfer",
    "engine/policies",
    "engine/state",
    "engine/flows",
    "engine/waiting",
    "engine/tubes",
    "engine/jobs",
    "protocol",
    "base",
  ],
};
