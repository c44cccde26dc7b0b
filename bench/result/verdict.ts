// Verdict on the variants of a case: whether each reaches its required share of the default.
import { type CaseOutcome, ratioTo } from "./outcome.ts";

interface Verdict {
  readonly isGood: boolean;
  readonly text: string;
}

/** One for each variant of each case that has any. A variant without a figure is no good. */
export function verdicts(outcomes: readonly CaseOutcome[]): Verdict[] {
  return outcomes.flatMap((outcome) => {
    const { variants, title } = outcome.benchCase;
    if (variants === undefined) return [];
    return outcome.servers.slice(1).map(({ server }, index) => {
      const ratio = ratioTo(outcome, index + 1);
      // The ratio is the default's to the variant; shown is the variant's to the default.
      const isGood = ratio !== undefined && ratio <= 1 / variants.shareMin;
      const figure = ratio === undefined ? "has no figure" : `${(1 / ratio).toFixed(3)} x the default`;
      const word = isGood ? "good" : `TOO SLOW, must reach ${variants.shareMin} x`;
      return { isGood, text: `${title}: ${server}: ${figure}: ${word}` };
    });
  });
}
