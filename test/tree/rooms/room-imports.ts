// Table of the rooms of src/ and of those that each may import from.

/**
 * For each room the rooms that it may import from, besides itself. A room is a folder: what stands
 * in "binlog/" itself is another room than "binlog/live/". Each is below those that it may import
 * from, so there is no way around in a circle. In a room of "binlog", "./live" is "binlog/live".
 */
const TABLE: Readonly<Record<string, string>> = {
  schema: "",
  base: "",
  protocol: "base",
  access: "base protocol",
  config: "access",
  ring: "base",
  uring: "base",
  "engine/jobs": "base protocol",
  "engine/queues": "./jobs base",
  "engine/tubes": "./{jobs,queues} base",
  "engine/state": "./{jobs,queues,tubes} base protocol",
  "engine/policies": "./{jobs,queues,state,tubes} base protocol",
  engine: "./{jobs,policies,queues,state,tubes} base protocol",
  message: "base protocol ring",
  loop: "message ring",
  "acceptor/state": "base protocol message ring",
  "acceptor/stream": "base protocol message engine/jobs",
  "acceptor/admission": "./{state,stream} base access ring protocol message",
  "acceptor/fanout": "./state base ring protocol message",
  "acceptor/migration": "./{state,stream} base ring protocol message",
  "acceptor/connection": "./{admission,fanout,migration,state,stream} base ring protocol message engine/jobs",
  "acceptor/sockets": "./{admission,connection,migration,stream} access uring base engine/jobs",
  acceptor: "./{admission,connection,migration,sockets,state} loop ring protocol message engine/jobs",
  "shard/records": "loop base ring protocol message engine engine/{jobs,state}",
  "shard/sessions": "./records base ring protocol message engine engine/{jobs,queues,state,tubes}",
  "shard/schedules": "./{records,sessions} base protocol message engine engine/jobs",
  "shard/transfer": "./{records,sessions} base protocol message engine engine/jobs",
  "shard/commands":
    "./{records,schedules,sessions,transfer} base protocol message engine engine/{jobs,state,tubes}",
  "shard/control":
    "./{records,schedules,sessions,transfer} base protocol message engine engine/{jobs,state,tubes}",
  shard:
    "./{commands,control,records,schedules,sessions,transfer} loop base ring protocol message engine engine/{jobs,queues,state}",
  "binlog/disk": "base",
  "binlog/segments": "./disk base protocol message",
  "binlog/live": "./{disk,segments} base message",
  "binlog/recovery": "./{disk,live,segments} base protocol message",
  "binlog/beanstalkd": "./{disk,live,recovery,segments} base protocol message",
  binlog: "./{beanstalkd,disk,live,recovery,segments} loop base ring message",
  "binlog/tools": "./{beanstalkd,disk,live,recovery,segments} base protocol message",
  replica: "base config message ring",
  "http/link": "base message acceptor/{connection,state,stream}",
  "http/state": "./link base message",
  "http/queue": "./{link,state} base ring protocol message acceptor acceptor/{admission,connection,state}",
  "http/api": "./queue base protocol message",
  "http/metrics": "./{queue,state} ring protocol message",
  "http/limits": "./{api,link,metrics} base message",
  "http/admin": "./{api,limits,metrics,queue,state} base access message",
  "http/app": "./{api,limits,link,queue} base access message",
  "http/jobs": "./{api,app,limits,link,queue} protocol access ring message",
  "http/tubes": "./{admin,api,app,jobs,link,queue,state} base protocol ring message",
  http: "./{admin,api,app,jobs,limits,link,queue,state,tubes} loop access ring message acceptor acceptor/{admission,connection,sockets,state}",
  threads: "loop replica binlog shard http message acceptor acceptor/{admission,sockets} shard/records",
  // The types of answers.
  "dashboard/parts": "http/api",
  "dashboard/pages": "./parts",
  dashboard: "./{pages,parts}",
  client: "",
  cli: "base protocol client config",
  outbox: "cli client",
  "cli/commands": "base cli protocol client outbox",
  "server/options":
    "base message access http protocol config replica acceptor acceptor/admission binlog/segments",
  "server/lifecycle": "./options threads replica ring config message",
  "server/listeners": "./options threads access ring config message acceptor/{admission,sockets}",
  "server/tools":
    "./{lifecycle,listeners,options} base access cli config replica binlog/tools cli/commands uring",
  server:
    "./{lifecycle,listeners,options,tools} threads loop base binlog ring shard http config message acceptor acceptor/{admission,state}",
};

/** Returns the rooms that an entry of the table names: "a/{b,c}" stands for "a/b" and "a/c". */
function named(room: string, entry: string): readonly string[] {
  const [top] = room.split("/");
  const names = entry.split(" ").filter((word) => word !== "");
  return names.flatMap((word) => {
    const [folder, inside] = word.split("/{");
    const all =
      inside === undefined
        ? [word]
        : inside
            .slice(0, -1)
            .split(",")
            .map((name) => `${folder}/${name}`);
    return all.map((name) => name.replace(/^\.(?=\/)/, top!));
  });
}

export const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(TABLE).map(([room, entry]) => [
    room,
    // All show the same facts.
    room === "schema" ? [] : [...named(room, entry), "schema"],
  ]),
);
