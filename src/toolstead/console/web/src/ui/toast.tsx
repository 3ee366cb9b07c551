import { useSyncExternalStore, type ReactNode } from "react";

import { Problem } from "../api/client";

interface Toast {
  id: number;
  text: string;
}

let shown: readonly Toast[] = [];
let next = 0;
const watchers = new Set<() => void>();

/** Say for some seconds what has just been done. Failures belong beside what failed: use ErrorNotice there. */
export function say(text: string): void {
  const toast = { id: (next += 1), text };
  change([...shown.slice(-3), toast]);
  window.setTimeout(() => change(shown.filter((one) => one !== toast)), 5000);
}

export function sayProblem(error: unknown): void {
  say(error instanceof Problem ? `${error.title}: ${error.detail}` : String(error));
}

function change(toasts: readonly Toast[]): void {
  shown = toasts;
  for (const watch of watchers) watch();
}

export function Toasts(): ReactNode {
  const toasts = useSyncExternalStore(
    (watch) => {
      watchers.add(watch);
      return () => void watchers.delete(watch);
    },
    () => shown,
  );
  return (
    <div className="toasts" role="status" aria-live="polite">
      {toasts.map((toast) => (
        <div key={toast.id} className="toast">
          {toast.text}
        </div>
      ))}
    </div>
  );
}
