/** The screens: address, name, icon and code, which is loaded when a screen is first opened. */
import { lazy, type ComponentType, type LazyExoticComponent } from "react";

import type { IconName } from "./ui/icons";

export interface Screen {
  /** Its address; the addresses below it are its own too, and it reads them with wouter's `useRoute`. */
  path: string;
  name: string;
  icon: IconName;
  /** The second key of its shortcut, after `g`. */
  key: string;
  group: "Work" | "Build" | "Operate";
  Component: LazyExoticComponent<ComponentType>;
}

export const SCREENS: readonly Screen[] = [
  { path: "/", name: "Home", icon: "home", key: "h", group: "Work", Component: lazy(() => import("./screens/home/Home")) },
  { path: "/chat", name: "Chat", icon: "chat", key: "c", group: "Work", Component: lazy(() => import("./screens/chat/Chat")) },
  { path: "/runs", name: "Runs", icon: "runs", key: "r", group: "Work", Component: lazy(() => import("./screens/runs/Runs")) },
  { path: "/tasks", name: "Tasks", icon: "tasks", key: "k", group: "Work", Component: lazy(() => import("./screens/tasks/Tasks")) },
  { path: "/approvals", name: "Approvals", icon: "approvals", key: "a", group: "Work", Component: lazy(() => import("./screens/approvals/Approvals")) },
  { path: "/tools", name: "Tools", icon: "tools", key: "t", group: "Build", Component: lazy(() => import("./screens/tools/Tools")) },
  { path: "/editor", name: "Tool editor", icon: "edit", key: "e", group: "Build", Component: lazy(() => import("./screens/editor/Editor")) },
  { path: "/agents", name: "Agents", icon: "agents", key: "g", group: "Build", Component: lazy(() => import("./screens/agents/Agents")) },
  { path: "/plugins", name: "Plugins", icon: "plugins", key: "p", group: "Build", Component: lazy(() => import("./screens/plugins/Plugins")) },
  { path: "/sessions", name: "Sessions", icon: "sessions", key: "s", group: "Operate", Component: lazy(() => import("./screens/sessions/Sessions")) },
  { path: "/events", name: "Events", icon: "events", key: "v", group: "Operate", Component: lazy(() => import("./screens/events/Events")) },
  { path: "/settings", name: "Settings", icon: "settings", key: "x", group: "Operate", Component: lazy(() => import("./screens/settings/Settings")) },
  { path: "/trust", name: "Trust", icon: "trust", key: "u", group: "Operate", Component: lazy(() => import("./screens/trust/Trust")) },
  { path: "/try", name: "API", icon: "docs", key: "i", group: "Build", Component: lazy(() => import("./screens/try/Try")) },
];
