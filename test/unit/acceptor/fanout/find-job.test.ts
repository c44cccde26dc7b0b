// Tests of the search for a job that the directory does not know, played by the test.

import assert from "node:assert/strict";
import { it } from "node:test";
import { FindJob } from "../../../../src/acceptor/fanout/find-job.ts";
import { JobPlaces } from "../../../../src/acceptor/state/job-places.ts";
import { RequestOp } from "../../../../src/message/request.ts";
import { ResponseKind } from "../../../../src/message/response.ts";
import { createTopology } from "../../../../src/message/topology.ts";
import { Op } from "../../../../src/protocol/commands.ts";
import { Request } from "../../../../src/protocol/request.ts";
import { JobDirectory } from "../../../../src/ring/job-directory.ts";
import { NotingHost, signalOf } from "../../../support/in-process/noting-host.ts";

const ID = 5;

it("ends with NOT_FOUND if a job goes after it was found, though the directory still names its shard", () => {
  const topology = createTopology({ shards: 2, acceptors: 1, jobBytesMax: 65_535, ringBytes: 1 << 16 });
  const host = new NotingHost(
    (shard, { op }) => `${op === RequestOp.Locate ? "locate" : "command"} at ${shard}`,
  );
  const command = new Request().begin(Op.Bury);
  command.id = ID;
  const search = new FindJob(host, new JobPlaces(topology), command);
  search.begin();
  assert.deepEqual(host.did, ["locate at 0", "locate at 1"]);
  search.onSignal(signalOf(0, ResponseKind.Absent));
  search.onSignal(signalOf(1, ResponseKind.Ack));
  assert.deepEqual(host.did, ["command at 1"]);
  new JobDirectory(topology.directory).set(ID, 1);
  search.onSignal(signalOf(1, ResponseKind.Absent));
  assert.deepEqual(host.did, ["command at 1"], "the job may have moved and come back");
  search.onSignal(signalOf(1, ResponseKind.Absent));
  assert.deepEqual(host.did, ["NOT_FOUND"]);
});
