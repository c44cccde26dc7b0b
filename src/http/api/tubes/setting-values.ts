// Settings of tubes in JSON: `max-attempts=5` is `"maxAttempts": 5`. Durations are in seconds.

import { type TObject, type TSchema, Type } from "typebox";
import type { SettingInEffect } from "../../../message/control.ts";
import { OptionKind, type OptionRow } from "../../../protocol/option-rows.ts";
import { jsonNameOf, SETTING_ROWS } from "../../../protocol/setting-rows.ts";
import { isTubeName } from "../../../protocol/tube-name.ts";
import { toMilliseconds } from "../durations.ts";
import { Problem } from "../problem.ts";

const NUMBER_MAX = 2 ** 32 - 1;
/** Each part of a rate is from 1 to 4294967295. */
const RATE = "^[1-9][0-9]{0,9}/[1-9][0-9]{0,9}$";

export type SettingJson = Readonly<Record<string, number | string>>;
/** Some settings; null removes one. */
export type SettingChanges = Readonly<Record<string, number | string | null>>;

const ROWS: ReadonlyMap<string, OptionRow> = new Map(SETTING_ROWS.map((row) => [jsonNameOf(row), row]));
const FIELDS: ReadonlyMap<string, string> = new Map(SETTING_ROWS.map((row) => [row.name, jsonNameOf(row)]));

function schemaOf({ kind, min = 0, max = NUMBER_MAX, words = [] }: OptionRow): TSchema {
  switch (kind) {
    case OptionKind.Number:
      return Type.Integer({ minimum: min, maximum: max });
    case OptionKind.Duration:
      return Type.Number({ minimum: 0, maximum: NUMBER_MAX, description: "Seconds, to the millisecond." });
    case OptionKind.Word:
      return Type.Union(words.map((word) => Type.Literal(word)));
    case OptionKind.Rate:
      return Type.String({ pattern: RATE, description: "Number of jobs, a slash, and number of seconds." });
    default:
      return Type.String({ minLength: 1, maxLength: 200 });
  }
}

/** Schema of the settings of a tube or pattern. */
export const Settings: TObject = Type.Object(
  Object.fromEntries([...ROWS].map(([field, row]) => [field, Type.Optional(schemaOf(row))])),
  { additionalProperties: false },
);

/** Schema of a change of some settings. */
export const Changes: TObject = Type.Object(
  Object.fromEntries(
    [...ROWS].map(([field, row]) => [field, Type.Optional(Type.Union([schemaOf(row), Type.Null()]))]),
  ),
  { additionalProperties: false },
);

/** Schema of the settings in effect for a tube, each with the pattern that it comes from. */
export const SettingsInEffect: TObject = Type.Object(
  Object.fromEntries(
    [...ROWS].map(([field, row]) => [
      field,
      Type.Optional(Type.Object({ value: schemaOf(row), from: Type.String() })),
    ]),
  ),
  { additionalProperties: false },
);

/** Converts one setting from the form of set-tube to its field and value. */
function settingJson(name: string, text: string): [field: string, value: number | string] {
  const field = FIELDS.get(name)!;
  const { kind } = ROWS.get(field)!;
  const isNumber = kind === OptionKind.Number || kind === OptionKind.Duration;
  return [field, isNumber ? Number(text) : text];
}

/** Converts the settings in effect for a tube. */
export function settingsInEffect(
  settings: readonly SettingInEffect[],
): Record<string, { value: number | string; from: string }> {
  return Object.fromEntries(
    settings.map(([name, text, from]) => {
      const [field, value] = settingJson(name, text);
      return [field, { value, from }];
    }),
  );
}

/** Converts settings from the form of set-tube, `max-attempts=5 backoff=10`. */
export function settingsJson(text: string): SettingJson {
  const options = text.split(" ").filter((option) => option !== "");
  return Object.fromEntries(
    options.map((option) => {
      const [name, value] = option.split("=", 2) as [string, string];
      return settingJson(name, value);
    }),
  );
}

/**
 * Converts settings that passed the schema to the form of set-tube. It removes omitted settings.
 */
export const settingsLine = (settings: SettingJson): string =>
  [...ROWS.keys()].map((field) => optionOf(field, valueAt(settings, field) ?? null)).join(" ");

/** Does the same for a change, which leaves omitted settings alone. */
export const changesLine = (changes: SettingChanges): string =>
  Object.entries(changes)
    .map(([field, value]) => optionOf(field, value))
    .join(" ");

const valueAt = (settings: SettingJson, field: string): number | string | undefined =>
  Object.hasOwn(settings, field) ? settings[field] : undefined;

function optionOf(field: string, value: number | string | null): string {
  const { name, kind } = ROWS.get(field)!;
  if (value === null) return `${name}=`;
  if (kind === OptionKind.Duration) return `${name}=${toMilliseconds(Number(value), field)}`;
  if (kind === OptionKind.Tube) requireTubeName(`${value}`, field);
  if (kind === OptionKind.Rate) requireRate(`${value}`, field);
  return `${name}=${value}`;
}

function requireRate(rate: string, field: string): void {
  if (rate.split("/").some((part) => Number(part) > NUMBER_MAX))
    throw new Problem(
      "bad-request",
      `"/${field}" must be two numbers from 1 to ${NUMBER_MAX} with a slash between, not "${rate}".`,
    );
}

function requireTubeName(name: string, field: string): void {
  const bytes = Buffer.from(name);
  if (!isTubeName(bytes, 0, bytes.length))
    throw new Problem("bad-tube-name", `"/${field}" must be the name of a tube, not "${name}".`);
}
