import type { ReactNode } from "react";
import { useRoute } from "wouter";

import { RunList } from "./RunList";
import { RunPage } from "./RunPage";
import { StepPage } from "./StepPage";
import "./runs.css";

export default function Runs(): ReactNode {
  const [isStep, step] = useRoute("/runs/:run/steps/:step");
  const [isRun, run] = useRoute("/runs/:run");
  if (isStep) return <StepPage run={decodeURIComponent(step.run)} number={Number(step.step)} />;
  if (isRun) return <RunPage run={decodeURIComponent(run.run)} />;
  return <RunList />;
}
