// Whether threads started now can read the bundle: instead of src/binlog/readable-code.ts.

import { isReadable } from "runnerbean:parts";

export const isCodeReadable = isReadable;
