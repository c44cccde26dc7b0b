// Checks the files of deploy/, as far as a machine can.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { dashboard, ROWS } from "../../deploy/grafana/generate.ts";
import { checkFile, parseOptions } from "../../src/server/options/options.ts";
import { allCommands } from "../../src/server/tools/subcommands.ts";
import { eventually } from "../support/eventually.ts";
import { canRun, NEEDS } from "../support/machine/need.ts";
import { temporaryFolder } from "../support/machine/temporary-folder.ts";
import { launch, startServer } from "../support/server/server-process.ts";
import { checkToolLines } from "../support/tool-lines.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const DEPLOY = join(ROOT, "deploy");
const read = (path: string): string => readFileSync(join(DEPLOY, path), "utf8");

/** Returns whether the server takes these arguments. */
function assertArguments(args: readonly string[]): void {
  const options = parseOptions(args, "runnerbean", {});
  assert.ok(!("exitCode" in options), JSON.stringify(options));
}

describe("deploy: systemd", () => {
  it("units pass systemd's check", (t) => {
    if (!canRun(t, NEEDS.systemdAnalyze)) return;
    const folder = temporaryFolder(t, "units");
    const program = join(folder, "runnerbean");
    writeFileSync(program, "#!/bin/sh\n");
    chmodSync(program, 0o755);
    const units = ["runnerbean.service", "runnerbean.socket"].map((name) => {
      const path = join(folder, name);
      writeFileSync(path, read(`systemd/${name}`).replaceAll("/usr/local/bin/runnerbean", program));
      return path;
    });
    const { stdout, stderr, status } = spawnSync("systemd-analyze", ["verify", ...units], {
      encoding: "utf8",
    });
    assert.equal(status, 0, stdout + stderr);
    // It may complain about other units of the machine.
    assert.doesNotMatch(stdout + stderr, /runnerbean\.(?:service|socket)/);
  });

  it("the configuration is valid, and the unit names it", () => {
    const { faults, options } = checkFile(join(DEPLOY, "runnerbean.toml"));
    assert.deepEqual(faults, []);
    assert.equal(options.binlog, "/var/lib/runnerbean");
    assert.match(read("systemd/runnerbean.service"), /--config \/etc\/runnerbean\/runnerbean\.toml/);
  });

  it("is told when the server serves, reloads and stops", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const folder = temporaryFolder(t, "notify");
    const told = join(folder, "told");
    // The first word decides how long it takes: notifications that overtake each other would be
    // seen.
    writeFileSync(
      join(folder, "systemd-notify"),
      `#!/bin/sh\ncase "$*" in *RELOADING*) sleep 0.3 ;; esac\necho "$@" >> ${told}\n`,
    );
    const config = join(folder, "config.toml");
    writeFileSync(config, 'log-level = "info"\n');
    chmodSync(join(folder, "systemd-notify"), 0o755);
    const env = { NOTIFY_SOCKET: "/nonexistent", PATH: `${folder}:${process.env["PATH"]}` };
    const server = await launch({ kind: "ours", env, flags: ["--config", config] });
    const until = (words: RegExp): Promise<unknown> =>
      eventually(
        () => `${words}: ${server.stderr}`,
        () => (existsSync(told) && words.test(readFileSync(told, "utf8")) ? true : undefined),
      );
    await until(new RegExp(`--pid=${server.pid} --status=serves on .* --ready\n`));
    // The reload ends, with or without success.
    for (const text of ['log-level = "warn"\n', "log-level = 7\n"]) {
      const before = process.hrtime.bigint() / 1000n;
      writeFileSync(told, "");
      writeFileSync(config, text);
      server.signal("SIGHUP");
      const reloaded = /^--pid=(\d+) RELOADING=1 MONOTONIC_USEC=(\d+)\n--pid=\1 --ready\n$/;
      await until(reloaded);
      const [, pid, usec] = reloaded.exec(readFileSync(told, "utf8"))!;
      assert.equal(Number(pid), server.pid);
      const now = process.hrtime.bigint() / 1000n;
      assert.ok(BigInt(usec!) >= before && BigInt(usec!) <= now, `${before} ${usec} ${now}`);
    }
    assert.equal((await server.stop()).code, 0);
    await until(/--stopping/);
  });
});

/** Asserts that each selector and legend of Grafana's panels names labels that the series have. */
function assertLabels(metrics: string): void {
  for (const { title, panels } of ROWS)
    for (const { queries } of panels)
      for (const [expr, legend] of queries) {
        const names = [...expr.matchAll(/\b(?:runnerbean|process)_[a-z_]+/g)].map(([name]) => name);
        assert.ok(names.length > 0, expr);
        // Series of what hasn't happened yet have no samples, and so no labels.
        const samples = names.map((name) => new RegExp(`^${name}\\{.*`, "gm")).map((of) => metrics.match(of));
        const labels = new Set(`${samples}`.match(/[a-z_]+(?==")/g) ?? []);
        if (samples.some((each) => each === null) && labels.size === 0) continue;
        const asked = expr.match(/[a-z_]+(?==~?")/g) ?? [];
        const by = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(", "));
        const shown = [...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, name]) => name!);
        for (const label of [...asked, ...by, ...shown])
          assert.ok(label === "instance" || labels.has(label), `${title}: ${expr} has no label ${label}`);
      }
}

describe("deploy: metrics", () => {
  it("rules are well formed, and fire exactly when they should", (t) => {
    if (!canRun(t, NEEDS.promtool)) return;
    const rules = join(DEPLOY, "prometheus/alerts.yaml");
    execFileSync("promtool", ["check", "rules", rules]);
    execFileSync("promtool", ["check", "config", join(DEPLOY, "prometheus/prometheus.yaml")]);
    execFileSync("promtool", ["test", "rules", join(DEPLOY, "prometheus/alerts.test.yaml")]);
    const alerts = [...readFileSync(rules, "utf8").matchAll(/- alert: (\w+)/g)].map(([, name]) => name!);
    assert.ok(alerts.length > 10);
    for (const alert of alerts)
      assert.match(read("prometheus/alerts.test.yaml"), new RegExp(`alertname="${alert}"`));
    assert.equal(read("prometheus/alerts.yaml").match(/^ +action: /gm)?.length, alerts.length, "what to do");
  });

  it("the remedies of rules are existing commands", async () => {
    const tree = await allCommands();
    const actions = read("prometheus/alerts.yaml").match(/^ +action: .*$/gm) ?? [];
    let commands = 0;
    for (const action of actions) {
      // Behind the name of the program stands one of them.
      const asCode = action.replaceAll("runnerbean ", "`runnerbean ");
      commands += checkToolLines(asCode, tree, (_, what) => assert.fail(`${action}: ${what}`));
    }
    assert.ok(commands >= 8, `${commands}`);
  });

  it("Grafana's dashboard is the script's output", () => {
    assert.equal(read("grafana/dashboard.json"), dashboard(), "node deploy/grafana/generate.ts");
    assert.ok(ROWS.length >= 6);
  });

  it("rules and dashboard name only existing series, and the page names all of them", async (t) => {
    if (!canRun(t, NEEDS.ours)) return;
    const log = join(temporaryFolder(t, "deploy"), "log");
    mkdirSync(log);
    const server = await startServer({
      kind: "ours",
      flags: ["-b", log, "--http", "127.0.0.1:0", "--max-memory", "1G"],
    });
    t.after(() => server.stop());
    const base = /http:\/\/127\.0\.0\.1:\d+/.exec(server.stderr)![0];
    // The table of tubes is there when it has been asked for.
    await (await fetch(`${base}/v1/tubes?fresh=true`)).text();
    const metrics = await (await fetch(`${base}/metrics`)).text();
    const series = new Set([...metrics.matchAll(/^# TYPE (\S+) (\w+)$/gm)].map(([, name]) => name!));
    const texts = [read("grafana/dashboard.json"), read("prometheus/alerts.yaml")];
    const used = new Set(texts.flatMap((text) => text.match(/\brunnerbean_[a-z_]+/g) ?? []));
    assert.ok(used.size > 25, `${used.size} series are found`);
    const missing = [...used].filter(
      (name) => !series.has(name) && !series.has(name.replace(/_bucket$/, "")),
    );
    assert.deepEqual(missing, []);
    assertLabels(metrics);
    const page = readFileSync(join(ROOT, "docs/metrics.md"), "utf8");
    const told = (name: string): boolean =>
      page.includes(`\`${name.replace("runnerbean_", "")}\``) || name.startsWith("process_");
    assert.deepEqual(
      [...series].filter((name) => !told(name)),
      [],
    );
    // A server in a group has some more, and none is at hand here.
    const source = readFileSync(join(ROOT, "src/http/metrics/server-families.ts"), "utf8");
    const ofGroups = [...source.matchAll(/\b(gauge|counter)\(\s*"(group_\w+)"/g)].map(
      ([, kind, name]) => `${name}${kind === "counter" ? "_total" : ""}`,
    );
    assert.ok(ofGroups.length >= 12);
    assert.deepEqual(
      ofGroups.filter((name) => !told(name)),
      [],
    );
    // KEDA follows a path through the answer, and takes what is there for a number.
    const keda = read("keda.yaml");
    const [, path] = /url: http:\/\/[^/]+(\S+)/.exec(keda)!;
    const [, location] = /valueLocation: (\S+)/.exec(keda)!;
    const answer: unknown = await (await fetch(base + path)).json();
    const value = location!.split(".").reduce((at, key) => (at as Record<string, unknown>)[key], answer);
    assert.equal(value, 0);
  });
});

describe("deploy: containers", () => {
  const dockerfile = read("Dockerfile");
  const instruction = (name: string): string => new RegExp(`^${name} (.*)$`, "m").exec(dockerfile)?.[1] ?? "";

  // test/packaging/image.test.ts builds it.
  it("the image starts as its own user", () => {
    assert.equal(instruction("USER"), "11300:11300");
    assert.match(instruction("ENTRYPOINT"), /^\["\/usr\/bin\/runnerbean"\]$/);
    assertArguments(JSON.parse(instruction("CMD")));
    assert.match(
      dockerfile,
      /^HEALTHCHECK .*"\/usr\/bin\/runnerbean", "health", "--url", "http:\/\/127\.0\.0\.1:11380"\]$/m,
    );
  });

  it("compose and Kubernetes use options that the server accepts", (t) => {
    if (!canRun(t, NEEDS.ruby)) return;
    const program = "require 'yaml'; require 'json'; puts YAML.load_stream(ARGF.read).to_json";
    const load = (path: string) =>
      JSON.parse(execFileSync("ruby", ["-e", program, join(DEPLOY, path)], { encoding: "utf8" }));
    const [compose] = load("compose.yaml");
    assertArguments(compose.services.runnerbean.command);
    for (const { volumes = [] } of Object.values<{ volumes?: string[] }>(compose.services))
      for (const volume of volumes)
        if (volume.startsWith("../")) assert.ok(existsSync(join(DEPLOY, volume.split(":")[0]!)), volume);
    const [service, set] = load("kubernetes.yaml");
    const { containers, enableServiceLinks, volumes } = set.spec.template.spec;
    assertArguments(containers[0].args);
    assert.equal(enableServiceLinks, false);
    assert.equal(set.spec.replicas, 1);
    assert.deepEqual(
      containers[0].ports.map((port: { containerPort: number }) => port.containerPort),
      service.spec.ports.map((port: { port: number }) => port.port),
    );
    assert.deepEqual(service.spec.selector, set.spec.template.metadata.labels);
    const mounted = containers[0].volumeMounts.map((mount: { name: string }) => mount.name).sort();
    const claims = set.spec.volumeClaimTemplates.map(
      (claim: { metadata: { name: string } }) => claim.metadata.name,
    );
    assert.deepEqual(mounted, [...claims, ...volumes.map((volume: { name: string }) => volume.name)].sort());
    for (const path of globSync("**/*.yaml", { cwd: DEPLOY })) assert.ok(load(path).length > 0, path);
    const keda = load("keda.yaml").filter((each: { kind: string }) => each.kind === "ScaledObject");
    assert.deepEqual(
      keda.map((each: { spec: { triggers: { type: string }[] } }) => each.spec.triggers[0]!.type),
      ["beanstalkd", "metrics-api"],
    );
  });
});
