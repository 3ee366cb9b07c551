import type { ReactNode } from "react";

import { Icon, type IconName } from "../../ui/icons";
import type { PlanStep } from "./transcript";

const SIGNS: Readonly<Record<string, readonly [IconName, string]>> = {
  completed: ["done", "done"],
  in_progress: ["busy", "under way"],
  pending: ["off", "to do"],
};

/** The agent's own checklist. */
export function Plan({ steps, isOpen }: { steps: readonly PlanStep[]; isOpen: boolean }): ReactNode {
  if (steps.length === 0) return null;
  const done = steps.filter((step) => step.status === "completed").length;
  return (
    <details className="plan card" open={isOpen}>
      <summary>
        Plan: {done} of {steps.length} done
      </summary>
      <ol className="plain stack tight">
        {steps.map((step, index) => {
          const [icon, word] = SIGNS[step.status] ?? (["unknown", step.status] as const);
          return (
            <li key={index} className={`row fixed plan-${step.status}`}>
              <Icon name={icon} spin={icon === "busy" && isOpen} /> <span className="visually-hidden">{word}: </span>
              <span className="grow">{step.step}</span>
            </li>
          );
        })}
      </ol>
    </details>
  );
}
