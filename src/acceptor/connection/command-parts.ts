// The parts of a connection that its commands use.

import type { ClientState } from "../migration/client-state.ts";
import type { AcceptorParts } from "./acceptor-parts.ts";
import type { Conversations } from "./conversations.ts";
import type { Pipeline } from "./pipeline.ts";
import type { PutUpload } from "./put-upload.ts";
import type { Shutdown } from "./shutdown.ts";

export interface CommandParts {
  readonly acceptor: AcceptorParts;
  readonly client: ClientState;
  readonly pipeline: Pipeline;
  readonly conversations: Conversations;
  readonly upload: PutUpload;
  readonly shutdown: Shutdown;
}
