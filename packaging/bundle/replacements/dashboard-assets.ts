// Files of the dashboard as the build prepared them; replaces
// src/http/app/dashboard-assets.ts.

import { read } from "runnerbean:parts";
import type { Asset } from "../../../src/http/app/dashboard-assets.ts";

interface Listed {
  readonly name: string;
  readonly type: string;
  readonly etag: string;
}

/** Returns the assets by path. All are read now, before the process drops its privileges. */
export function loadAssets(): ReadonlyMap<string, () => Asset> {
  const list = JSON.parse(`${read("dashboard/assets.json")}`) as Listed[];
  return new Map(
    list.map(({ name, type, etag }) => {
      const asset = { type, etag, bytes: read(`dashboard/${name}`), gzipped: read(`dashboard/${name}.gz`) };
      return [name, () => asset];
    }),
  );
}
