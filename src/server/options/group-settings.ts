// Settings of a server in a group: `--replicate` and related options.

import { type Setting, SettingError } from "../../config/setting.ts";
import { parseGroupUrl } from "../../replica/group-url.ts";

export interface GroupSettings {
  /** Group of this server: nats://a,b,c/GROUP; undefined for none. */
  replicate: string | undefined;
  /** Address of this server for other nodes, "host:port"; by default host name and port. */
  replicateAs: string | undefined;
  /** Condition that replies to changes wait for, besides the server's own log. */
  replicateWait: "log" | "standby" | "nothing";
  /** Time for which it may serve after its last acknowledged append, seconds. */
  replicateLease: number;
}

export const GROUP_DEFAULTS: Readonly<GroupSettings> = {
  replicate: undefined,
  replicateAs: undefined,
  replicateWait: "log",
  replicateLease: 3,
};

export const GROUP_SETTINGS: readonly Setting<GroupSettings>[] = [
  {
    key: "replicate",
    flags: "--replicate <url>",
    kind: "text",
    text: "with -b: join a group of servers, such as nats://a:4222,b:4222,c:4222/GROUP (see runnerbean replica --help)",
    example: "nats://a:4222,b:4222,c:4222/queue",
    apply(options, url) {
      try {
        parseGroupUrl(url);
      } catch (error) {
        throw new SettingError((error as Error).message);
      }
      options.replicate = url;
    },
    show: ({ replicate }) => replicate,
  },
  {
    key: "replicate-as",
    flags: "--replicate-as <addr>",
    kind: "text",
    text: "host:port at which the other servers of the group reach this one (default: the host name and -p)",
    example: "queue1.example:11300",
    apply(options, address) {
      if (!/^.+:\d+$/.test(address))
        throw new SettingError(`invalid address: --replicate-as ${address} (host:port)`);
      options.replicateAs = address;
    },
    show: ({ replicateAs }) => replicateAs,
  },
  {
    key: "replicate-wait",
    flags: "--replicate-wait <what>",
    kind: "text",
    text: "what a reply waits for: log: the shared log has it (default); standby: a standby has it on disk, too; nothing",
    apply(options, what) {
      if (what !== "log" && what !== "standby" && what !== "nothing")
        throw new SettingError(`invalid value: --replicate-wait ${what} (log, standby or nothing)`);
      options.replicateWait = what;
    },
    show: ({ replicateWait }) => replicateWait,
  },
  {
    key: "replicate-lease",
    flags: "--replicate-lease <seconds>",
    kind: "decimal",
    plainFlag: true,
    text: "how long to serve without an answer from the shared log, 2 to 60 (default 3); must be the same in the whole group",
    apply(options, seconds) {
      const value = /^\d+(\.\d+)?$/.test(seconds) ? Number(seconds) : 0;
      if (value < 2 || value > 60)
        throw new SettingError(`invalid number: --replicate-lease ${seconds} (2 to 60)`);
      options.replicateLease = value;
    },
    show: ({ replicateLease }) => replicateLease,
  },
];
