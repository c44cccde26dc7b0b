// Tests of the summary of skipped tests at the end of `npm test`: the commands that install what
// was missing.

import assert from "node:assert/strict";
import { it } from "node:test";
import { remediesOf } from "./need.ts";

it("remedies are printed once each, and those of apt-get in one line", () => {
  assert.deepEqual(
    remediesOf([
      "/usr/bin/php is missing (apt-get install php-cli); /x.php is missing (apt-get install php-pda-pheanstalk)",
      "/usr/bin/beanstalkd is missing (apt-get install beanstalkd)",
      "/usr/bin/php is missing (apt-get install php-cli)",
      "nats-server is missing (.ci/nats-server.sh /tmp/runnerbean-nats/sid sid)",
      "only root can give files away",
    ]),
    [
      "sudo apt-get install beanstalkd php-cli php-pda-pheanstalk",
      ".ci/nats-server.sh /tmp/runnerbean-nats/sid sid",
    ],
  );
  assert.deepEqual(remediesOf(["only root can give files away"]), []);
});
