// Tests of pages of schedules: how they end, how those of several shards become one, and as text.

import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LIST_TEXT_BYTES_MAX, listText } from "../../../src/protocol/option-rows.ts";
import {
  mergedSchedules,
  type ScheduleLine,
  type SchedulePage,
  scheduleListText,
  schedulePage,
} from "../../../src/protocol/schedule-list.ts";

const lineOf = (name: string): ScheduleLine => ({ name, line: `- { name: ${name} }\n` });
const linesOf = (names: string): ScheduleLine[] => [...names].map(lineOf);
const page = (names: string, hasMore = false): SchedulePage => ({ lines: linesOf(names), hasMore });
const namesOf = ({ lines, hasMore }: SchedulePage): string =>
  lines.map(({ name }) => name).join("") + (hasMore ? "+" : "");

describe("schedulePage", () => {
  it("ends at its limit, and says whether there is more", () => {
    assert.equal(namesOf(schedulePage(linesOf("abc"), 3, false)), "abc");
    assert.equal(namesOf(schedulePage(linesOf("abc"), 2, false)), "ab+");
    assert.equal(namesOf(schedulePage(linesOf("abc"), 4, true)), "abc+");
    assert.equal(namesOf(schedulePage([], 5, false)), "");
  });

  it("ends before its text grows too long, but has at least one line", () => {
    const long = (bytes: number): ScheduleLine => ({ name: "l", line: "x".repeat(bytes) });
    const all = LIST_TEXT_BYTES_MAX;
    assert.equal(namesOf(schedulePage([long(all + 1)], 9, false)), "l");
    assert.equal(namesOf(schedulePage([long(all - 10), long(10)], 9, false)), "ll");
    assert.equal(namesOf(schedulePage([long(all - 10), long(11)], 9, false)), "l+");
    assert.equal(namesOf(schedulePage([long(all), long(0), long(1), long(1)], 9, false)), "ll+");
  });
});

describe("mergedSchedules", () => {
  it("sorts the lines of all shards by name", () => {
    assert.equal(namesOf(mergedSchedules([page("ce"), page(""), page("abd")], 9)), "abcde");
    assert.equal(namesOf(mergedSchedules([page("ce"), page("abd")], 4)), "abcd+");
    assert.equal(namesOf(mergedSchedules([], 4)), "");
  });

  it("ends where the first of the shards that have more has ended", () => {
    assert.equal(namesOf(mergedSchedules([page("ad", true), page("bce")], 9)), "abcd+");
    assert.equal(namesOf(mergedSchedules([page("ad", true), page("bc", true), page("ez")], 9)), "abc+");
    assert.equal(namesOf(mergedSchedules([page("bc", true), page("ad", true)], 9)), "abc+");
  });

  it("has a schedule that moved meanwhile once", () => {
    assert.equal(namesOf(mergedSchedules([page("ab"), page("bc")], 9)), "abc");
  });
});

describe("the text of a list", () => {
  it("names the schedule after which the next page begins", () => {
    assert.equal(scheduleListText(page("ab")), '---\nnext: ""\nschedules:\n- { name: a }\n- { name: b }\n');
    assert.equal(scheduleListText(page("a", true)), '---\nnext: "a"\nschedules:\n- { name: a }\n');
    assert.equal(scheduleListText(page("")), '---\nnext: ""\nschedules: []\n');
    assert.equal(scheduleListText(page("", true)), '---\nnext: ""\nschedules: []\n');
  });

  it("is ASCII, whatever the name", () => {
    const text = scheduleListText({ lines: [{ name: 'n"\u00e9\u00ff\x7f', line: "- x\n" }], hasMore: true });
    assert.match(text, /^next: "n\\"\\u00e9\\u00ff\\u007f"$/m);
  });

  it("of jobs has the id of the next page, and a line each", () => {
    assert.equal(listText(0, []), "---\nnext: 0\njobs: []\n");
    assert.equal(listText(7, ["- a\n", "- b\n"]), "---\nnext: 7\njobs:\n- a\n- b\n");
  });
});
