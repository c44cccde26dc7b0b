// The test of each command that a page shows: in a small form, by an existing test, or the reason
// why not.

/** One kind of commands. The first row that matches a command counts. */
export type Row = { readonly match: RegExp } & (
  | {
      /** A small form: other numbers, the same options. Ends with 0, and prints `says`. */
      readonly small: (command: string) => string;
      readonly says: RegExp;
      /** Takes too long for `npm test`: `npm run documented` plays it. */
      readonly isLong?: true;
      /** Programs of NEEDS without which it can't be played. */
      readonly needs?: readonly "beanstalkd"[];
    }
  /** A file of tests that plays it, and what it has of the command. */
  | { readonly by: string; readonly has: readonly string[] }
  | { readonly not: string }
);

/** The command with these options, in the place of what it says of them. */
function withOptions(command: string, options: Readonly<Record<string, string>>): string {
  let text = command.replace(/\[.*\]/, "").trim();
  for (const [name, value] of Object.entries(options)) {
    const given = new RegExp(` --${name} \\S+`);
    if (given.test(text)) text = text.replace(given, ` --${name} ${value}`);
    else text += `${text.includes(" -- ") ? "" : " --"} --${name} ${value}`;
  }
  return text;
}

const small = (options: Readonly<Record<string, string>>) => (command: string) =>
  withOptions(command, options);
const same = (command: string): string => command;
const MEASURED = "a measurement: a machine in use makes it say nothing; its test is bench/*.test.ts";
const NEEDS_ROOT = "changes the machine: root, or packages that it installs";

/** A row for a tool: `test` has each of `words` as an argument. */
const tool = (match: RegExp, test: string, ...words: string[]): Row => ({
  match,
  by: test,
  has: words.map((word) => `"${word}"`),
});

export const ROWS: readonly Row[] = [
  // Words choose files of tests (documents.test.ts looks for each), and those are what this test is
  // among.
  {
    match: /^(?:[A-Z_]+=\S+ )*npm test(?: -- [\w ./-]+)?$/,
    by: "test/tree/documents.test.ts",
    has: ["CHOSEN_TESTS"],
  },
  {
    match: /^(?:[A-Z_]+=\S+ )*node (?:--test|test\/run\.ts)\b/,
    by: "test/tree/documents.test.ts",
    has: ["PROGRAM"],
  },
  { match: /^npm (?:ci|install)\b|^sudo /, not: NEEDS_ROOT },
  { match: /^\.ci\//, not: NEEDS_ROOT },
  {
    match: /^npm run fuzz:coverage/,
    // Without --keep, which changes the corpus.
    small: () => "npm run fuzz:coverage -- --seconds 1 --seed 1",
    says: /^cursor: \d+ inputs/m,
    isLong: true,
  },
  { match: /^npm run attacks\b/, by: "test/attacks/attacks.test.ts", has: ["ATTACKS"] },
  { match: /^npm (?:version|publish|pack)\b/, not: "part of a release: writes a version, or publishes it" },

  { match: /^npm run simulate -- --http/, small: small({ seeds: "2", steps: "50" }), says: /^2 seeds from/m },
  {
    match: /^npm run simulate(?= |$)/,
    // Whatever seed a page names, it is the same option.
    small: (command) =>
      / --seed /.test(command)
        ? "npm run simulate -- --seed 57 --seeds 2 --steps 50"
        : small({ seeds: "2", steps: "50" })(command),
    says: /^2 runs, .* nothing found$/m,
  },
  { match: /^npm run simulate:binlog/, small: small({ seeds: "2" }), says: /^2 seeds from 1: 0 failed/m },
  {
    match: /^npm run simulate:replica/,
    small: small({ seeds: "2", steps: "300" }),
    says: /^2 seeds in \d+ s, 0 failed/m,
  },
  { match: /^npm run stress -- --list$/, small: same, says: /planted: / },
  {
    match: /^npm run stress -- .*--case server/,
    small: small({ seconds: "0.3" }),
    says: / 0 failed$/m,
    isLong: true,
  },
  {
    match: /^npm run stress(?= |$)/,
    small: () => "npm run stress -- --seconds 0.2 --case job-ids --seed 42",
    says: /^1 cases and \d+ planted bugs in \d+ s, 0 failed$/m,
  },
  {
    match: /^npm run fuzz\b/,
    small: () => "npm run fuzz -- --seeds 2 --seconds 60",
    says: /^splitting, server: [12] runs in .*, nothing found$/m,
    needs: ["beanstalkd"],
  },
  { match: /^npm run simulate:page/, by: "test/proof/watch/watch.test.ts", has: ["pageAssets", "servePage"] },
  { match: /^npm run nightly\b/, by: "test/proof/nightly/nightly.test.ts", has: ["playNight", "withRow"] },
  { match: /^npm run mutate\b/, by: "test/proof/mutation/mutation.test.ts", has: ["mutantsOf", "runChild"] },
  {
    match: /^npm run soak\b/,
    small: () => "npm run soak -- --seconds 3 --no-disk --seed 1",
    says: /^Every promise kept\. Seed 1\.$/m,
    isLong: true,
  },
  {
    match: /^npm run differential\b/,
    small: small({ seeds: "1", steps: "30", shards: "1", parallel: "1" }),
    says: /^No difference\.$/m,
    needs: ["beanstalkd"],
  },
  {
    match: /^(?:ROUNDS=\d+ )?npm run kill$/,
    small: () => "ROUNDS=1 npm run kill",
    says: /fail 0/,
    isLong: true,
  },
  {
    match: /^npm run outbox -- --(?:speed|rate)/,
    by: "test/outbox/outbox-speed.test.ts",
    has: ["measure", "measureLoad"],
  },
  { match: /^npm run outbox\b/, by: "test/outbox/outbox-kill.test.ts", has: ["KILLS"] },
  { match: /^npm run kill -- --moves/, by: "test/process/moves-kill.test.ts", has: ["MOVE_KILLS"] },
  {
    match: /^(?:ROUNDS=\d+ )?npm run kill -- --batches$/,
    by: "test/process/batch-ends-kill.test.ts",
    has: ["BATCH_END_KILLS"],
  },
  { match: /^npm run kill -- --replica/, by: "test/replica/group.test.ts", has: ["ROUNDS"] },
  {
    match: /^npm run proof:histories -- --planted/,
    by: "test/proof/histories/histories.test.ts",
    has: ["lie"],
  },
  {
    match: /^npm run proof:histories\b/,
    small: small({ histories: "8" }),
    says: /^8 of 8 histories accepted/m,
    needs: ["beanstalkd"],
    isLong: true,
  },
  { match: /^npm run proof:marks\b/, by: "test/proof/marks/marks.test.ts", has: ["countMarks"] },
  {
    match: /^(?:LAZYFS=\S+ )?npm run proof:power\b/,
    by: "test/proof/power/power.test.ts",
    has: ["losePowerAgain"],
  },
  {
    match: /^npm run proof:group -- .*--planted/,
    by: "test/proof/group/group.test.ts",
    has: ["--replicate-wait"],
  },
  {
    match: /^npm run proof:group\b/,
    small: () => "npm run proof:group -- --rounds 2 --seed 1",
    says: /^2 rounds, 0 with a find/m,
    isLong: true,
  },
  { match: /^npm run types$/, small: same, says: /^/, isLong: true },
  { match: /^npm run lint$/, small: same, says: /^Checked \d+ files/m, isLong: true },
  { match: /^npm run format$/, not: "writes into the sources; npm run lint says what it would change" },
  { match: /^npm run check$/, not: "types, lint and npm test, of which this test is a part" },
  { match: /^npm run test:whole$/, not: "npm test, of which this test is a part, and more of the same" },
  { match: /^npm run documented$/, not: "this test" },
  { match: /^npm run (?:build|prepack)$/, by: "test/packaging/bundle.test.ts", has: ["bundledFiles"] },
  {
    match: /^npm (?:ci && npm )?run build:packages\b/,
    by: "test/packaging/packages.test.ts",
    has: ["packServer", "packClient", "packNode"],
  },
  {
    match: /^(?:npm run build:deb|bin\/node packaging\/debian\/build\.ts arm64)$/,
    by: "test/packaging/debian.test.ts",
    has: ["makeDebianPackage"],
  },
  {
    match: /^npm (?:ci && npm )?run build:image$/,
    by: "test/packaging/image.test.ts",
    has: ["makeContext"],
  },
  {
    match: /^npm run release\b/,
    by: "test/packaging/release.test.ts",
    has: ["faultsOf", "billOfMaterials", "withTable"],
  },
  { match: /^npm run packaging$/, not: "fetches compilers and runtimes, for ten minutes" },
  {
    match: /^npm run build:executable(?: -- arm64)?$/,
    by: "test/packaging/executable.test.ts",
    has: ["makeExecutable"],
  },
  {
    match: /^npm run (?:screenshots|dashboard:bounds)\b/,
    not: "pictures and limits for a reader; dashboard.test.ts has the pages",
  },

  { match: /^npm run bench:micro/, small: small({ only: "command", rounds: "1" }), says: /ns/, isLong: true },
  {
    match: /^npm run bench(?::native)? -- .*--scenario scale\b/,
    small: () =>
      "npm run bench -- --scenario scale --threads 1,2 --connections 8 --warm 300 --seconds 0.5 --generators 1",
    says: /^PREDICTION, not a measurement/m,
    isLong: true,
  },
  { match: /^SYNC_US=\S+ LD_PRELOAD=\S+/, by: "bench/generators.test.ts", has: ["SYNC_US", "LD_PRELOAD"] },
  { match: /^npm run bench(?::native)?(?= |$)/, not: MEASURED },
  { match: /^make(?: check)?$/, not: "a build in C; bench/*.test.ts makes the program and looks at it" },

  {
    match: /^(?:npm (?:ci && npm )?start\b|bin\/runnerbean$)/,
    small: (command) => (command.startsWith("npm") ? "npm start -- --version" : `${command} --version`),
    says: /^runnerbean \d+\.\d+\.\d+$/m,
  },
  {
    match: /^node src\/server\/main\.ts$/,
    by: "test/support/server/server-process.ts",
    has: ["src/server/main.ts"],
  },
  {
    match: /^(?:[A-Z_]+=\S+ )?(?:bin\/)?runnerbean(?: -.*)?$/,
    by: "test/process/config-command.test.ts",
    has: ["--config"],
  },
  tool(/^runnerbean config example$/, "test/process/config-command.test.ts", "example"),
  tool(/^runnerbean config check\b/, "test/process/config-command.test.ts", "check"),
  tool(/^runnerbean config print\b/, "test/process/config-command.test.ts", "print"),
  tool(/^runnerbean completion\b/, "test/tools/completion.test.ts", "fish"),
  tool(/^runnerbean token\b/, "test/server/token-command.test.ts", "add", "list", "remove"),
  tool(/^runnerbean (?:backup|restore)\b/, "test/http/backups.test.ts", "backup", "--rate", "restore", "-"),
  tool(/^runnerbean (?:tube|stats)\b/, "test/tools/cli.test.ts", "tube", "stats"),
  tool(/^runnerbean pause\b/, "test/tools/check.test.ts", "pause"),
  tool(/^runnerbean resume\b/, "test/tools/check.test.ts", "resume"),
  tool(/^runnerbean doctor\b/, "test/tools/doctor-command.test.ts", "doctor", "--json"),
  tool(/^runnerbean schedule\b/, "test/tools/schedule.test.ts", "schedule", "set", "--cron", "--tz"),
  tool(/^runnerbean batch\b/, "test/tools/batch.test.ts", "batch", "open", "commit", "show"),
  tool(/^runnerbean shadow\b/, "test/tools/shadow.test.ts", "shadow", "--old", "--new", "--listen"),
  tool(/^runnerbean outbox\b/, "test/outbox/relay.test.ts", "init", "--apply", "status", "retry", "--tube"),
  tool(/^runnerbean proxy\b/, "test/server/proxy.test.ts", "proxy"),
  {
    match: /^runnerbean binlog\b/,
    by: "test/binlog/tools.test.ts",
    has: ["inspect", "verify", "dump", "$TOOL restore", "compact", "export"],
  },
  tool(
    /^runnerbean (?:put|reserve|jobs|tubes|top)\b/,
    "test/tools/cli.test.ts",
    "put",
    "reserve",
    "jobs",
    "tubes",
    "top",
  ),
  tool(/^runnerbean (?:move|update)\b/, "test/tools/change.test.ts", "move", "update"),
  tool(/^runnerbean history\b/, "test/tools/cli-history.test.ts", "history"),
  tool(/^runnerbean failures\b/, "test/tools/cli-failures.test.ts", "failures"),
  tool(/^runnerbean redrive\b/, "test/tools/over-http.test.ts", "redrive", "--text", "--limit"),
  tool(/^runnerbean settings\b/, "test/tools/over-http.test.ts", "settings", "set", "show", "remove"),
  tool(/^runnerbean (?:drain|undrain|reload)$/, "test/tools/over-http.test.ts", "drain", "undrain", "reload"),
  tool(/^runnerbean replica\b/, "test/replica/failures.test.ts", "init", "status", "yield"),
];
