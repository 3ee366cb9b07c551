/** The runs of a tree as rows: each below the one that started it, with the sums of what is below it. */
import type { Shape } from "../../api/client";

export type Run = Shape<"ListedRun">;

export interface TreeRow {
  run: Run;
  depth: number;
  children: number;
  /** Tokens and cost of the run and all below it. */
  tokens: number;
  cost: number;
}

export function buildTree(runs: readonly Run[], folded: ReadonlySet<string>): TreeRow[] {
  const known = new Set(runs.map((run) => run.id));
  const children = new Map<string, Run[]>();
  const roots: Run[] = [];
  for (const run of runs) {
    if (run.parentRunId && known.has(run.parentRunId)) {
      const siblings = children.get(run.parentRunId);
      if (siblings) siblings.push(run);
      else children.set(run.parentRunId, [run]);
    } else {
      roots.push(run);
    }
  }
  const sums = sumUp(runs, children);
  const rows: TreeRow[] = [];
  // Without recursion: a tree may be as deep as its limits allow, and a page must not depend on that.
  const waiting: { run: Run; depth: number }[] = [...roots].reverse().map((run) => ({ run, depth: 0 }));
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const { run, depth } = next;
    const below = children.get(run.id) ?? [];
    const [tokens, cost] = sums.get(run.id) ?? [0, 0];
    rows.push({ run, depth, children: below.length, tokens, cost });
    if (!folded.has(run.id)) for (const child of [...below].reverse()) waiting.push({ run: child, depth: depth + 1 });
  }
  return rows;
}

function sumUp(runs: readonly Run[], children: ReadonlyMap<string, readonly Run[]>): Map<string, [number, number]> {
  const sums = new Map<string, [number, number]>();
  // Oldest first: those below a run come after it, so the sums go backwards.
  for (const run of [...runs].reverse()) {
    let tokens = run.usage.inputTokens + run.usage.outputTokens;
    let cost = run.usage.cost;
    for (const child of children.get(run.id) ?? []) {
      const [more, dearer] = sums.get(child.id) ?? [0, 0];
      tokens += more;
      cost += dearer;
    }
    sums.set(run.id, [tokens, cost]);
  }
  return sums;
}
