// Checks how the assertions of the rooms whose state must never be wrong are written.

import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { after, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import type { Node, SourceFile } from "typescript/unstable/ast";
import { SyntaxKind } from "typescript/unstable/ast";
import { API } from "typescript/unstable/sync";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What a message or a condition must not have: it would cost time although the condition holds. */
const COSTLY: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.ArrowFunction,
  SyntaxKind.FunctionExpression,
  SyntaxKind.TemplateExpression,
  SyntaxKind.ArrayLiteralExpression,
  SyntaxKind.ObjectLiteralExpression,
  SyntaxKind.NewExpression,
]);

/** A node as this file reads it; the classes of the package's nodes are many. */
interface AnyNode extends Node {
  readonly expression?: AnyNode;
  readonly arguments?: readonly AnyNode[];
  readonly thenStatement?: AnyNode;
}

interface Counted {
  asserts: number;
  /** As `src/a.ts:3: ...`. */
  readonly mistakes: string[];
}

function countIn(file: string, source: SourceFile, counted: Counted): void {
  const textOf = (node: AnyNode): string => source.text.slice(node.getStart(source), node.end);
  const visit = (node: AnyNode, isChecked: boolean): void => {
    if (node.kind === SyntaxKind.CallExpression && textOf(node.expression!) === "assert") {
      counted.asserts++;
      const mistake = mistakeOf(node.arguments!, isChecked);
      const line = source.text.slice(0, node.getStart(source)).split("\n").length;
      if (mistake !== undefined) counted.mistakes.push(`${file}:${line}: ${mistake}`);
    }
    const checks = node.kind === SyntaxKind.IfStatement && textOf(node.expression!).startsWith("CHECKED");
    node.forEachChild((child) => visit(child, isChecked || checks));
  };
  visit(source, false);
}

function mistakeOf([condition, message]: readonly AnyNode[], isChecked: boolean): string | undefined {
  if (message?.kind !== SyntaxKind.StringLiteral) return "the message of an assertion is a literal";
  return !isChecked && isCostly(condition!) ? "a costly assertion needs if (CHECKED)" : undefined;
}

function isCostly(node: AnyNode): boolean {
  let costly = COSTLY.has(node.kind);
  node.forEachChild((child) => {
    costly ||= isCostly(child);
  });
  return costly;
}

const nothing = (): Counted => ({ asserts: 0, mistakes: [] });

describe("the assertions", () => {
  const api = new API({ cwd: ROOT });
  after(() => api.close());
  const tsconfig = join(ROOT, "tsconfig.json");
  const { program } = api.updateSnapshot({ openProjects: [tsconfig] }).getProject(tsconfig)!;

  function countOf(pattern: string): Counted {
    const counted = nothing();
    for (const file of globSync(pattern, { cwd: ROOT }).sort())
      countIn(file, program.getSourceFile(join(ROOT, file))!, counted);
    return counted;
  }

  it("have literal messages, and cost no more than a comparison without CHECKED", () => {
    const rooms = countOf("src/{acceptor,base,binlog,engine,message,protocol,replica,ring,shard}/**/*.ts");
    assert.ok(rooms.asserts > 500, "the assertions are found");
    assert.deepEqual(rooms.mistakes, []);
  });
});
