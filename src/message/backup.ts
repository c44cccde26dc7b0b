// The shared words by which the HTTP thread and the log arrange a backup.

import { BackupWords } from "../ring/backup-words.ts";
import { ControlWord, type Topology } from "./topology.ts";

/** Returns the words by which the HTTP thread asks the log for a cut. */
export function backupWords({ control }: Topology): BackupWords {
  return new BackupWords(new Int32Array(control), ControlWord.BackupAsked, ControlWord.BackupAnswered);
}
