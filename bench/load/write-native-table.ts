// Writes the table of scenarios for the generator in C: bin/node bench/load/write-native-table.ts
import { writeFileSync } from "node:fs";
import { nativeTable, nativeTableFile } from "./native-table.ts";

writeFileSync(nativeTableFile, nativeTable());
