// A put whose body arrives in pieces.

import { RequestFlag } from "../../message/request.ts";
import type { ShardCommand } from "./command.ts";

export const putOpen: ShardCommand = ({ puts }, session, request) => {
  puts.open(session, request);
  puts.data(session, request.body);
};

export const putData: ShardCommand = ({ puts }, session, { body }) => puts.data(session, body);

export const putEnd: ShardCommand = ({ puts, nowMs }, session, { body, flags }) => {
  puts.data(session, body);
  puts.end(session, (flags & RequestFlag.BadBody) !== 0, nowMs);
};
