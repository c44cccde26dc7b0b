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
  access: "protocol base",
  config: "access",
  ring: "base",
  uring: "base",
  "engine/jobs": "protocol base",
  "engine/queues": "./jobs base",
  "engine/tubes": "./{queues,jobs} base",
  "engine/flows": "./{queues,jobs} protocol base",
  "engine/waiting": "./{tubes,queues,jobs} protocol base",
  "engine/state": "./{flows,waiting,tubes,queues,jobs} protocol base",
  "engine/policies": "./{state,flows,tubes,queues,jobs} protocol base",
  "engine/schedules": "./{queues,jobs} protocol base",
  "engine/transfer": "",
  "engine/walks": "./{tubes,queues,jobs} base",
  engine: "./{schedules,walks,transfer,policies,state,flows,waiting,tubes,jobs} protocol base",
  message: "ring protocol base",
  loop: "message ring",
  "acceptor/input": "protocol base",
  "acceptor/replies": "./input message engine/jobs protocol base",
  "acceptor/state": "message ring protocol base",
  "acceptor/admission": "./{state,replies,input} message ring access protocol base",
  "acceptor/fanout": "./state message ring protocol base",
  "acceptor/fanout/lists": "./{fanout,state} message protocol base",
  "acceptor/fanout/reserve": "./{fanout,state} message protocol base",
  "acceptor/fanout/batch": "./{fanout/reserve,fanout/lists,fanout,state} message protocol base",
  "acceptor/migration": "./{state,replies} message ring protocol base",
  "acceptor/connection":
    "./{migration,fanout/batch,fanout/reserve,fanout/lists,fanout,admission,state,replies,input} " +
    "message engine/jobs ring protocol base",
  "acceptor/sockets": "./{connection,migration,admission,state,replies,input} engine/jobs uring base",
  acceptor: "./{sockets,connection,migration,admission,state} loop message engine/jobs ring protocol",
  "shard/records": "message engine engine/{schedules,waiting,jobs} ring protocol base",
  "shard/sessions": "message engine engine/{waiting,queues,jobs} ring protocol base",
  "shard/replies": "./{sessions,records} message engine engine/{flows,tubes,jobs} ring protocol base",
  "shard/flows": "./{replies,records} message engine engine/{flows,queues} protocol base",
  "shard/slices": "./{flows,replies,sessions} message engine engine/{walks,tubes,jobs} protocol base",
  "shard/schedules":
    "./{slices,replies,sessions,records} message engine engine/{schedules,jobs} protocol base",
  "shard/transfer": "./{replies,sessions,records} message engine engine/{walks,transfer,jobs} protocol base",
  "shard/commands":
    "./{schedules,flows,transfer,slices,replies,sessions,records} engine " +
    "engine/{schedules,walks,transfer,flows,tubes,jobs} message protocol base",
  "shard/control":
    "./{schedules,transfer,slices,replies,records} message engine " +
    "engine/{schedules,walks,transfer,waiting,flows,tubes,jobs} protocol base",
  shard:
    "./{schedules,control,flows,commands,transfer,slices,replies,sessions,records} engine " +
    "engine/{schedules,waiting,queues,jobs} loop message ring protocol base",
  "binlog/format": "message base",
  "binlog/disk": "./format base",
  "binlog/books": "./{disk,format} message protocol base",
  "binlog/live": "./{books,disk,format} message base",
  "binlog/recovery": "./{live,books,disk,format} message protocol base",
  "binlog/beanstalkd": "./{recovery,live,books,disk,format} message protocol base",
  binlog: "./{beanstalkd,recovery,live,disk,format} loop message ring base",
  "binlog/tools": "./{beanstalkd,recovery,live,books,disk,format} message protocol base",
  replica: "config message ring base",
  "http/link": "acceptor acceptor/{connection,state,replies} loop message ring base",
  "http/state": "./link message ring base",
  "http/queue": "./{state,link} acceptor acceptor/{connection,admission,state} message ring base protocol",
  "http/api": "./queue message protocol base",
  "http/metrics": "./{queue,state,link} message protocol base",
  "http/api/bodies": "./{api,queue,link} message base",
  "http/api/limits": "./{metrics,api/bodies,api,queue,link} base",
  "http/api/access": "./{api/limits,api,queue,state} message access",
  "http/api/admin": "./{api/limits,metrics,api,queue,state,link} message access base",
  "http/api/app": "./{api/bodies,api/access,api/limits,api,queue,link}",
  "http/api/jobs": "protocol ./{api/bodies,api/access,api/limits,api,queue,link} message ring access",
  "http/api/tubes":
    "./{api/jobs,api/bodies,api/admin,api/limits,api,queue,state,link} message ring base protocol",
  "http/api/flows": "./{api/jobs,api/bodies,api,queue,link} protocol base",
  "http/api/events": "./{api/app,api/access,api,queue}",
  "http/api/dashboard": "./api",
  http:
    "./api/{dashboard,events,flows,tubes,jobs,app,admin,access,limits} ./{api,queue,state,link} " +
    "acceptor/{sockets,connection,admission,state} loop message ring access",
  threads: "http replica binlog shard acceptor acceptor/{sockets,admission} loop message",
  // The types of answers.
  "dashboard/parts": "http/api",
  "dashboard/pages": "./parts",
  dashboard: "./{pages,parts}",
  client: "",
  cli: "config client protocol base",
  "cli/shadow": "base",
  "cli/commands": "./shadow cli client protocol base",
  "server/logging": "base",
  "server/options":
    "./logging http replica binlog/format acceptor acceptor/admission message access config protocol " +
    "base",
  "server/group": "./options threads config replica message ring",
  "server/lifecycle": "./{options,logging} binlog ring config",
  "server/listeners": "./options threads acceptor/{sockets,admission} access config",
  "server/tools": "./{listeners,group,options} cli cli/commands replica binlog/tools access config base",
  server:
    "./{tools,listeners,lifecycle,group,options,logging} threads http binlog shard acceptor " +
    "acceptor/{admission,state} loop message ring config base",
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
