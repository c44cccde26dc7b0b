// Mutants of a source file: each is one small change that a good test notices.
//
// Not mutated are types, messages, assertions and throws (they guard against faults that no test
// may have), and constants of whole files, most of which are sizes.

import type { Node, SourceFile } from "typescript/unstable/ast";
import { SyntaxKind } from "typescript/unstable/ast";

export interface Mutant {
  /** Below the root, as src/engine/queue-core.ts. */
  readonly file: string;
  readonly start: number;
  readonly end: number;
  /**
   * Where coverage tells whether the place is executed. V8 counts an operator such as `??` with its
   * right side, so this is the beginning of the expression.
   */
  readonly coveredAt: number;
  readonly replacement: string;
  readonly line: number;
  /** Such as `<` to `<=`. */
  readonly what: string;
}

const OPERATORS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "&&": "||",
  "||": "&&",
  "??": "&&",
  "&": "|",
  "|": "&",
  "^": "&",
  "<<": ">>>",
  ">>": "<<",
  ">>>": "<<",
  "+=": "-=",
  "-=": "+=",
  "|=": "&=",
  "&=": "|=",
  "++": "--",
  "--": "++",
};

const SKIPPED: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.ImportDeclaration,
  SyntaxKind.ExportDeclaration,
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeAliasDeclaration,
  SyntaxKind.ThrowStatement,
  SyntaxKind.TypeReference,
  SyntaxKind.TypeLiteral,
  SyntaxKind.UnionType,
  SyntaxKind.FunctionType,
]);

/** A node as this file reads it; the classes of the package's nodes are many. */
interface AnyNode extends Node {
  readonly expression?: AnyNode;
  readonly operatorToken?: AnyNode;
  readonly operand?: AnyNode;
  readonly condition?: AnyNode;
  readonly whenTrue?: AnyNode;
  readonly whenFalse?: AnyNode;
  readonly name?: AnyNode;
}

const ASSERTS = /^(?:assert|this\.#assert\w*)$/;

export function mutantsOf(file: string, source: SourceFile): Mutant[] {
  const { text } = source;
  const found: Mutant[] = [];
  const textOf = (node: AnyNode): string => text.slice(node.getStart(source), node.end);
  const add = (
    start: number,
    end: number,
    replacement: string,
    what?: string,
    coveredAt: number = start,
  ): void => {
    const line = text.slice(0, start).split("\n").length;
    const shown = text.slice(start, end).replace(/\s+/g, " ").slice(0, 60);
    found.push({ file, start, end, coveredAt, replacement, line, what: what ?? `${shown} → ${replacement}` });
  };
  const replace = (node: AnyNode, replacement: string, what?: string): void =>
    add(node.getStart(source), node.end, replacement, what);

  function visitExpression(node: AnyNode): void {
    if (node.kind === SyntaxKind.BinaryExpression) {
      const operator = node.operatorToken!;
      const other = OPERATORS[textOf(operator)];
      if (other !== undefined)
        add(
          operator.getStart(source),
          operator.end,
          other,
          `${textOf(node).replace(/\s+/g, " ").slice(0, 70)}: ${textOf(operator)} → ${other}`,
          node.getStart(source),
        );
    } else if (
      node.kind === SyntaxKind.PrefixUnaryExpression ||
      node.kind === SyntaxKind.PostfixUnaryExpression
    ) {
      visitUnary(node);
    } else if (node.kind === SyntaxKind.ConditionalExpression) {
      replace(node, `(${textOf(node.whenTrue!)})`);
      replace(node, `(${textOf(node.whenFalse!)})`);
    } else if (node.kind === SyntaxKind.TrueKeyword) replace(node, "false");
    else if (node.kind === SyntaxKind.FalseKeyword) replace(node, "true");
    else if (node.kind === SyntaxKind.NumericLiteral)
      replace(node, textOf(node) === "0" ? "1" : `(${textOf(node)} + 1)`);
  }

  function visitUnary(node: AnyNode): void {
    const whole = textOf(node);
    const inner = textOf(node.operand!);
    if (whole.startsWith("!")) replace(node, `(${inner})`);
    else if (whole.startsWith("++") || whole.startsWith("--"))
      replace(node, `${OPERATORS[whole.slice(0, 2)]}${inner}`);
    else if (whole.endsWith("++") || whole.endsWith("--"))
      replace(node, `${inner}${OPERATORS[whole.slice(-2)]}`);
  }

  function visitStatement(node: AnyNode): boolean {
    if (node.kind === SyntaxKind.ExpressionStatement) {
      const { expression } = node;
      if (expression?.kind !== SyntaxKind.CallExpression) return true;
      if (ASSERTS.test(textOf(expression.expression!))) return false;
      if (textOf(expression).startsWith("super(")) return true;
      replace(node, ";", `${textOf(node).replace(/\s+/g, " ").slice(0, 70)} removed`);
    } else if (node.kind === SyntaxKind.IfStatement) {
      const condition = textOf(node.expression!);
      if (condition === "CHECKED" || condition.startsWith("CHECKED ")) return false;
      replace(node.expression!, "true", `if (${condition.replace(/\s+/g, " ").slice(0, 60)}) → true`);
      replace(node.expression!, "false", `if (${condition.replace(/\s+/g, " ").slice(0, 60)}) → false`);
    }
    return true;
  }

  function visit(node: AnyNode, isInFunction: boolean): void {
    if (SKIPPED.has(node.kind)) return;
    const isFunction = FUNCTIONS.has(node.kind);
    if (isInFunction) {
      if (!visitStatement(node)) return;
      visitExpression(node);
    }
    node.forEachChild((child) => {
      visit(child as AnyNode, isInFunction || isFunction);
    });
  }
  visit(source as Node as AnyNode, false);
  return found;
}

const FUNCTIONS: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
  SyntaxKind.Constructor,
]);

export const applied = (text: string, { start, end, replacement }: Mutant): string =>
  text.slice(0, start) + replacement + text.slice(end);
