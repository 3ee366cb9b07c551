import type { ReactNode } from "react";

import { Icon, type IconName } from "./icons";

type Tone = "good" | "bad" | "warn" | "busy" | "quiet";

/** State by shape and word; the colour only repeats them. */
const STATES: Readonly<Record<string, readonly [Tone, IconName, string]>> = {
  queued: ["warn", "waiting", "queued"],
  running: ["busy", "busy", "running"],
  completed: ["good", "done", "completed"],
  completed_unverified: ["warn", "unknown", "completed, not verified"],
  failed: ["bad", "failed", "failed"],
  rejected: ["bad", "failed", "rejected"],
  timeout: ["bad", "waiting", "timed out"],
  cancelled: ["quiet", "stopped", "cancelled"],
  stopped: ["warn", "stop", "stopped"],
  lost: ["bad", "unknown", "lost"],
  budget: ["bad", "stop", "budget spent"],
  refused: ["bad", "stopped", "refused"],
  waiting: ["warn", "waiting", "waits for a person"],
  active: ["good", "done", "active"],
  disabled: ["quiet", "off", "off"],
  idle: ["quiet", "off", "idle"],
  live: ["busy", "busy", "live"],
  stale: ["warn", "warning", "stale"],
  error: ["bad", "failed", "error"],
};

export function Status({ of, word }: { of: string; word?: string }): ReactNode {
  const [tone, icon, said] = STATES[of] ?? (["quiet", "unknown", of] as const);
  return (
    <span className={`status ${tone}`}>
      <Icon name={icon} size={15} spin={icon === "busy"} /> {word ?? said}
    </span>
  );
}
