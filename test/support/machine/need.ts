// Requirements of a test on the machine: skips with a reason if one is missing, and fails instead
// if CI=true.

import { existsSync } from "node:fs";
import type { TestContext } from "node:test";
import { BEANSTALKD, OUR_MAIN } from "../server/server-process.ts";

export interface Need {
  readonly path: string;
  /** Remedy, as one command. */
  readonly remedy: string;
}

export const NEEDS = {
  ours: { path: OUR_MAIN, remedy: "write src/server/main.ts" },
  beanstalkd: { path: BEANSTALKD, remedy: "apt-get install beanstalkd" },
  php: { path: "/usr/bin/php", remedy: "apt-get install php-cli" },
  pheanstalk: {
    path: "/usr/share/php/Pheanstalk/Pheanstalk.php",
    remedy: "apt-get install php-pda-pheanstalk",
  },
  python: { path: "/usr/bin/python3", remedy: "apt-get install python3" },
  ruby: { path: "/usr/bin/ruby", remedy: "apt-get install ruby" },
  beaneater: { path: "/usr/lib/ruby/vendor_ruby/beaneater.rb", remedy: "apt-get install ruby-beaneater" },
  curl: { path: "/usr/bin/curl", remedy: "apt-get install curl" },
  openssl: { path: "/usr/bin/openssl", remedy: "apt-get install openssl" },
  perl: { path: "/usr/bin/perl", remedy: "apt-get install perl" },
  unshare: { path: "/usr/bin/unshare", remedy: "apt-get install util-linux" },
  socketActivate: { path: "/usr/bin/systemd-socket-activate", remedy: "apt-get install systemd" },
  systemdAnalyze: { path: "/usr/bin/systemd-analyze", remedy: "apt-get install systemd" },
  ip: { path: "/usr/sbin/ip", remedy: "apt-get install iproute2" },
  promtool: { path: "/usr/bin/promtool", remedy: "apt-get install prometheus" },
  fish: { path: "/usr/bin/fish", remedy: "apt-get install fish" },
  zsh: { path: "/usr/bin/zsh", remedy: "apt-get install zsh" },
  dpkgDeb: { path: "/usr/bin/dpkg-deb", remedy: "apt-get install dpkg" },
  debootstrap: { path: "/usr/sbin/debootstrap", remedy: "apt-get install debootstrap" },
  buildah: { path: "/usr/bin/buildah", remedy: "apt-get install buildah" },
  umoci: { path: "/usr/bin/umoci", remedy: "apt-get install umoci" },
  crun: { path: "/usr/bin/crun", remedy: "apt-get install crun" },
  qemuArm64: { path: "/usr/bin/qemu-aarch64", remedy: "apt-get install qemu-user" },
  librariesArm64: {
    path: "/usr/aarch64-linux-gnu/lib/libstdc++.so.6",
    remedy: "apt-get install libstdc++6-arm64-cross libatomic1-arm64-cross",
  },
  strace: { path: "/usr/bin/strace", remedy: "apt-get install strace" },
  prlimit: { path: "/usr/bin/prlimit", remedy: "apt-get install util-linux" },
} as const satisfies Record<string, Need>;

/**
 * Sentence that says what is missing, or undefined when all is there. Throws under CI, where
 * nothing is skipped.
 */
export function missing(...needs: readonly Need[]): string | undefined {
  const absent = needs.filter((need) => !existsSync(need.path));
  if (absent.length === 0) return undefined;
  const reason = absent.map((need) => `${need.path} is missing (${need.remedy})`).join("; ");
  const { CI } = process.env;
  if (CI === "true") throw new Error(`Cannot skip under CI: ${reason}`);
  console.error(`\n!!!! SKIPPED: ${reason}\n`);
  return reason;
}

/**
 * Returns the commands that bring what is missing according to `reasons`, which are sentences of
 * `missing` among others: what apt-get installs in one line.
 */
export function remediesOf(reasons: readonly string[]): readonly string[] {
  const packages = new Set<string>();
  const others = new Set<string>();
  for (const reason of reasons)
    for (const [, remedy = ""] of reason.matchAll(/ is missing \(([^)]+)\)/g)) {
      const [, names] = /^apt-get install (.+)$/.exec(remedy) ?? [];
      if (names === undefined) others.add(remedy);
      else for (const name of names.split(" ")) packages.add(name);
    }
  const apt = packages.size === 0 ? [] : [`sudo apt-get install ${[...packages].sort().join(" ")}`];
  return [...apt, ...others];
}

/** Skips the running test when a need is absent. True when the test may go on. */
export function canRun(t: TestContext, ...needs: readonly Need[]): boolean {
  const reason = missing(...needs);
  if (reason === undefined) return true;
  t.skip(reason);
  return false;
}
