// Check whether new threads can read the bundle; replaces src/binlog/disk/readable-code.ts.

import { isReadable } from "runnerbean:parts";

export const isCodeReadable = isReadable;
