// Fills one tube with a number of jobs, as fast as possible.
import { type Address, type LoadResult, type LoadSource, NO_MARKS } from "../load/load-source.ts";
import { WORKLOAD_DEFAULTS } from "../load/workload.ts";

const SECONDS_MAX = 300;

export async function fill(
  load: LoadSource,
  address: Address,
  jobs: number,
  bodyBytes = 64,
): Promise<LoadResult> {
  const workload = {
    ...WORKLOAD_DEFAULTS,
    scenario: "put",
    connections: 20,
    pipeline: 50,
    bodyBytes,
    jobs,
    seconds: SECONDS_MAX,
    warmupSeconds: 0,
  } as const;
  const result = await load.run(address, workload, NO_MARKS);
  if (result.inserted !== jobs)
    throw new Error(`only ${result.inserted} of ${jobs} jobs were put in ${SECONDS_MAX} s`);
  return result;
}
