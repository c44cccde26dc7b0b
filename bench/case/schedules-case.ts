// Case of what schedules cost that wait for their ticks: CPU of the server with and without them.
import { setTimeout as sleep } from "node:timers/promises";
import { ServerRefused } from "../server/contender.ts";
import { preciseCpuSeconds } from "../server/process-usage.ts";
import { Asker, firstLines } from "./asker.ts";
import { type BenchCase, startFlags } from "./bench-case.ts";

const PIPELINE = 100;
/** None comes while the case runs, on most days. */
const WHEN = ["cron=0_12_29_2_* tz=Europe/Berlin", "cron=@yearly tz=America/New_York", "every=2592000"];

export function schedulesCase(count: number, seconds: number): BenchCase {
  return {
    key: `schedules-${count}`,
    title: `${count} schedules that wait, ${seconds} s`,
    group: "schedules",
    headline: "schedulesShare",
    turnsMax: 3,
    async measure(context) {
      if (!context.contender.canStart)
        throw new ServerRefused("the CPU time of a server elsewhere can't be seen");
      const server = await context.contender.start(startFlags(context));
      /** CPU of the server, as a share of a core. */
      const share = async (): Promise<number> => {
        const before = preciseCpuSeconds(server.pid!);
        await sleep(seconds * 1000);
        return (preciseCpuSeconds(server.pid!) - before) / seconds;
      };
      try {
        const without = await share();
        const asker = await Asker.open(server.address);
        const [asked] = await asker.ask("extensions\r\n", firstLines(1));
        if (asked === "UNKNOWN_COMMAND") throw new ServerRefused("it has no set-schedule");
        const before = preciseCpuSeconds(server.pid!);
        for (let at = 0; at < count; at += PIPELINE) {
          const commands = Array.from({ length: Math.min(PIPELINE, count - at) }, (_, index) => {
            const when = WHEN[(at + index) % WHEN.length];
            return `set-schedule nightly-${at + index} reports 0 0 600 4 ${when}\r\nwork\r\n`;
          });
          const replies = await asker.ask(commands.join(""), firstLines(commands.length));
          const wrong = replies.find((reply) => reply !== "SET");
          if (wrong !== undefined) throw new Error(`the reply to set-schedule was ${wrong}`);
        }
        asker.close();
        const scheduleCpu = ((preciseCpuSeconds(server.pid!) - before) * 1e6) / count;
        return { figures: { scheduleCpu, schedulesShare: (await share()) - without } };
      } finally {
        await server.stop();
      }
    },
  };
}
