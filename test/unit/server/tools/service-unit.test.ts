import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { directoryFault, serviceUnit } from "../../../../src/server/tools/service-unit.ts";
import { temporaryFolder } from "../../../support/machine/temporary-folder.ts";

const MODULE = new URL("../../../../src/server/tools/service-unit.ts", import.meta.url).href;
/** A user that owns nothing. */
const NOBODY = 65_534;
const DEPLOYED = fileURLToPath(new URL("../../../../deploy/systemd", import.meta.url));

describe("the unit of the service", () => {
  it("is read with its drop-ins, the later of which win", (t) => {
    const own = temporaryFolder(t, "unit");
    mkdirSync(join(own, "runnerbean.service.d"));
    writeFileSync(
      join(own, "runnerbean.service.d/override.conf"),
      "[Service]\nUser=queue\nLimitNOFILE=1000:2000\nReadWritePaths=/srv/a -/srv/b\n",
    );
    assert.equal(serviceUnit([own]), undefined);
    const unit = serviceUnit([own, DEPLOYED]) ?? assert.fail();
    assert.equal(unit.user, "queue");
    assert.equal(unit.config, "/etc/runnerbean/runnerbean.toml");
    assert.equal(unit.descriptors, 2000);
    assert.deepEqual(unit.writable, [
      "/var/lib/runnerbean",
      "/var/cache/runnerbean",
      "/run/runnerbean",
      "/var/lib/beanstalkd",
      "/srv/a",
      "/srv/b",
    ]);
    assert.equal(serviceUnit([DEPLOYED])?.user, "runnerbean");
  });

  it("follows systemd's rules for drop-ins: by their names, and the first folder wins", (t) => {
    const [etc, usr] = [temporaryFolder(t, "etc"), temporaryFolder(t, "usr")];
    const dropIn = (folder: string, name: string, text: string): void => {
      mkdirSync(join(folder, "runnerbean.service.d"), { recursive: true });
      writeFileSync(join(folder, "runnerbean.service.d", name), `[Service]\n${text}\n`);
    };
    dropIn(etc, "10-user.conf", "User = early");
    dropIn(usr, "20-user.conf", "User = late ");
    dropIn(etc, "30-limit.conf", "LimitNOFILE=1");
    dropIn(usr, "30-limit.conf", "LimitNOFILE=2");
    const unit = serviceUnit([etc, usr, DEPLOYED]) ?? assert.fail();
    assert.deepEqual([unit.user, unit.descriptors], ["late", 1]);
  });

  it("says what keeps it from writing to a directory", (t) => {
    const unit = serviceUnit([DEPLOYED]) ?? assert.fail();
    const outside = directoryFault("/srv/log", unit) ?? assert.fail();
    assert.match(outside.found, /read-only for the service/);
    assert.match(outside.todo, /ReadWritePaths=\/srv\/log$/);
    // A name that only begins like a permitted one.
    assert.match(directoryFault("/var/lib/runnerbean-2", unit)?.found ?? "", /read-only/);
    const folder = temporaryFolder(t, "log");
    assert.equal(directoryFault(folder, undefined), undefined);
    assert.match(directoryFault(join(folder, "none"), undefined)?.todo ?? "", /^install -d -o USER -m 700 /);
    writeFileSync(join(folder, "file"), "");
    assert.match(directoryFault(join(folder, "file"), undefined)?.found ?? "", /is not a directory/);
  });

  it("asks of beanstalkd's files only that they can be read, for beanstalkd makes them so", (t) => {
    const folder = temporaryFolder(t, "log");
    const [theirs, ours] = ["binlog.1", "runnerbean.1.log"].map((name) => join(folder, name));
    const set = (file: string, mode: number): void => {
      writeFileSync(file, "");
      chmodSync(file, mode);
      // Root may read and write all files, so another user looks.
      if (process.getuid!() === 0) for (const path of [folder, file]) chownSync(path, NOBODY, NOBODY);
    };
    const found = (): string => {
      // It becomes another user once the code is loaded, which that user may not be able to read.
      const program = `import { directoryFault } from "${MODULE}";
        if (process.getuid() === 0) { process.setgroups([]); process.setgid(${NOBODY}); process.setuid(${NOBODY}); }
        console.log(directoryFault(${JSON.stringify(folder)}, undefined)?.found);`;
      return execFileSync(process.execPath, ["--input-type=module", "--eval", program], {
        encoding: "utf8",
      }).trim();
    };
    set(theirs!, 0o400);
    assert.equal(found(), "undefined");
    set(ours!, 0o400);
    assert.match(found(), /can't write to \S+\/runnerbean\.1\.log \(EACCES\)$/);
    chmodSync(ours!, 0o600);
    chmodSync(theirs!, 0);
    assert.match(found(), /can't read \S+\/binlog\.1 \(EACCES\)$/);
  });
});
