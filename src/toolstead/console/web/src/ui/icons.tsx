import type { ReactNode } from "react";

const PATHS = {
  home: "M2 7.5 8 2.5l6 5M3.5 6.5V13h3.2V9.5h2.6V13h3.2V6.5",
  chat: "M2.5 3h11v7.5H7L4 13.2v-2.7H2.5z",
  runs: "M3 2.5v11M3 5h4.5M3 9.5h4.5M7.5 3.5h6v3h-6zM7.5 8h6v3h-6z",
  tools: "M9.8 2.6a3.4 3.4 0 0 0-3.4 4.6L2.5 11l2.4 2.4 3.9-3.9a3.4 3.4 0 0 0 4.5-4.3l-2 2-1.8-.5-.5-1.8 2-2a3.4 3.4 0 0 0-1.2-.3z",
  agents: "M4 6.5h8v6H4zM8 6.5V3.8M6.2 9.3h.1M9.8 9.3h.1M2 8.5v2M14 8.5v2M8 3.8h.1",
  tasks: "M2.5 4 3.7 5.2 6 2.8M2.5 9l1.2 1.2L6 7.8M8 4h5.5M8 9h5.5M8 13h5.5M3 13h1.5",
  approvals: "M8 1.8 13 3.6v4c0 3.2-2.2 5.4-5 6.6-2.8-1.2-5-3.4-5-6.6v-4zM5.8 7.9l1.6 1.6 2.9-3.1",
  plugins: "M5.5 2v3M10.5 2v3M3.5 5h9v2.8A4.5 4.5 0 0 1 8 12.2a4.5 4.5 0 0 1-4.5-4.4zM8 12.2V14.5",
  sessions: "M2 4.5h12M2 8h12M2 11.5h12M4 3.5v2M9 7v2M6 10.5v2",
  events: "M1.5 8h3l1.8-5 3.2 10 1.8-5h3.2",
  settings: "M8 5.6A2.4 2.4 0 1 0 8 10.4 2.4 2.4 0 0 0 8 5.6M8 1.8v1.6M8 12.6v1.6M1.8 8h1.6M12.6 8h1.6M3.6 3.6l1.2 1.2M11.2 11.2l1.2 1.2M12.4 3.6l-1.2 1.2M4.8 11.2l-1.2 1.2",
  trust: "M4 7V5a4 4 0 0 1 8 0v2M3 7h10v6.5H3zM8 9.5v1.8",
  docs: "M3 2.5h7l3 3v8H3zM10 2.5v3h3M5.5 8h5M5.5 10.5h5",
  done: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M5.4 8.2l1.8 1.8 3.5-3.8",
  failed: "M5.5 2h5L14 5.5v5L10.5 14h-5L2 10.5v-5zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4",
  stopped: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M4 12 12 4",
  waiting: "M4 2h8M4 14h8M5 2v2.5L8 8l3-3.5V2M5 14v-2.5L8 8l3 3.5V14",
  warning: "M8 2 14.5 13.5h-13zM8 6.2v3.6M8 11.7h.1",
  busy: "M8 2a6 6 0 0 1 6 6",
  unknown: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M6.2 6.2a1.8 1.8 0 1 1 2.6 1.6c-.6.3-.8.7-.8 1.3M8 11.3h.1",
  off: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2M5 8h6",
  copy: "M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3",
  close: "M3.5 3.5l9 9M12.5 3.5l-9 9",
  menu: "M2 4h12M2 8h12M2 12h12",
  down: "M3.5 6 8 10.5 12.5 6",
  right: "M6 3.5 10.5 8 6 12.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3 14 14",
  plus: "M8 3v10M3 8h10",
  stop: "M4 4h8v8H4z",
  pause: "M5 3.5v9M11 3.5v9",
  play: "M5 3l8 5-8 5z",
  retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v3h-3",
  edit: "M2.5 13.5l.7-3L10.8 3l2.2 2.2-7.5 7.6z",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.6 9h5.8l.6-9",
  external: "M9 2.5h4.5V7M13.5 2.5 7.5 8.5M11 9v4.5H2.5V5H7",
} as const;

export type IconName = keyof typeof PATHS;

/** A line drawing of 16 by 16; what it means stands beside it as text. */
export function Icon({ name, size = 16, spin = false }: { name: IconName; size?: number; spin?: boolean }): ReactNode {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.4"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      className={spin ? "spin" : undefined}
    >
      <path d={PATHS[name]} />
    </svg>
  );
}
