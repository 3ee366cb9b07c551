import { useQuery } from "@tanstack/react-query";
import { Component, Suspense, useEffect, useRef, useState, type ErrorInfo, type ReactNode } from "react";
import { Link, useLocation } from "wouter";

import { useAccess } from "./api/access";
import { api, take } from "./api/client";
import iconAddress from "./icon.svg";
import { useConnection, useLiveStatus } from "./live/LiveProvider";
import { SCREENS, type Screen } from "./screens";
import { Shortcuts } from "./Shortcuts";
import { Icon } from "./ui/icons";
import { Button, Empty, ErrorNotice, Loading } from "./ui/parts";
import { chooseTheme, readTheme, type Theme } from "./ui/theme";
import { Toasts } from "./ui/toast";

export function App(): ReactNode {
  const [location] = useLocation();
  const [isOpen, setOpen] = useState(false);
  const main = useRef<HTMLElement>(null);
  const screen = findScreen(location);
  useEffect(() => {
    document.title = screen ? `${screen.name} · Toolstead` : "Toolstead";
    setOpen(false);
  }, [screen]);
  return (
    <div className="frame">
      <a className="skip" href="#main">
        Skip to the content
      </a>
      <div className="topbar">
        <Button kind="quiet" icon="menu" label="Menu" aria-expanded={isOpen} onClick={() => setOpen(true)} />
        <strong>{screen?.name ?? "Toolstead"}</strong>
        <span className="grow" />
        <Connection />
      </div>
      {isOpen && <button type="button" className="side-shade" aria-label="Close the menu" onClick={() => setOpen(false)} />}
      <Side isOpen={isOpen} current={screen} />
      <main className="main" id="main" ref={main} tabIndex={-1}>
        <Notices />
        {screen ? (
          <Boundary key={screen.name}>
            <Suspense fallback={<div className="page"><Loading what={screen.name} /></div>}>
              <screen.Component />
            </Suspense>
          </Boundary>
        ) : (
          <div className="page">
            <Empty title="There is no such page">
              <Link href="/">Home</Link>
            </Empty>
          </div>
        )}
      </main>
      <Shortcuts />
      <Toasts />
    </div>
  );
}

function findScreen(location: string): Screen | undefined {
  const first = `/${location.split("/")[1] ?? ""}`;
  return SCREENS.find((screen) => screen.path === first);
}

function Side({ isOpen, current }: { isOpen: boolean; current: Screen | undefined }): ReactNode {
  const { data: health } = useQuery({ queryKey: ["health"], queryFn: () => take(api.GET("/api/health")) });
  const waiting = useWaiting();
  return (
    <nav className={isOpen ? "side open" : "side"} aria-label="Screens">
      <Link href="/" className="brand">
        <img src={iconAddress} alt="" /> Toolstead
      </Link>
      {(["Work", "Build", "Operate"] as const).map((group) => (
        <div key={group}>
          <div className="nav-title">{group}</div>
          <ul className="nav">
            {SCREENS.filter((screen) => screen.group === group).map((screen) => (
              <li key={screen.name}>
                <Link href={screen.path} aria-current={screen === current ? "page" : undefined}>
                  <Icon name={screen.icon} />
                  {screen.name}
                  {screen.name === "Approvals" && waiting > 0 && (
                    <span className="count" aria-label={`${waiting} wait`}>
                      {waiting}
                    </span>
                  )}
                </Link>
              </li>
            ))}
          </ul>
        </div>
      ))}
      <div className="side-foot">
        <a href="/docs">API reference</a>
        <ThemeChoice />
        <Connection />
        {health && <span>Toolstead {health.version}</span>}
      </div>
    </nav>
  );
}

function useWaiting(): number {
  const { mayWrite } = useAccess();
  const { data } = useQuery({
    queryKey: ["approvals"],
    queryFn: () => take(api.GET("/api/approvals")),
    enabled: mayWrite,
  });
  return data?.approvals.filter((approval) => !approval.decision).length ?? 0;
}

function ThemeChoice(): ReactNode {
  const [theme, setTheme] = useState(readTheme);
  return (
    <label className="row">
      <span>Colours</span>
      <select
        value={theme}
        onChange={(event) => {
          const chosen = event.target.value as Theme;
          chooseTheme(chosen);
          setTheme(chosen);
        }}
      >
        <option value="system">as the system</option>
        <option value="light">light</option>
        <option value="dark">dark</option>
      </select>
    </label>
  );
}

const WORDS = { connecting: "connecting", live: "live", behind: "behind", waiting: "not connected" } as const;

function Connection(): ReactNode {
  const { state, reason } = useLiveStatus();
  const tone = state === "live" ? "good" : state === "waiting" ? "bad" : "warn";
  return (
    <span className={`status ${tone}`} title={reason} data-live={state}>
      <Icon name={state === "live" ? "done" : state === "waiting" ? "failed" : "waiting"} size={14} /> {WORDS[state]}
    </span>
  );
}

/** What concerns the whole page: no connection, far behind, no right to change anything. */
function Notices(): ReactNode {
  const { state, pending, reason } = useLiveStatus();
  const connection = useConnection();
  const { mayWrite, known, login } = useAccess();
  return (
    <>
      {state === "waiting" && (
        <div className="notice-bar" role="status">
          <Icon name="warning" /> No connection to the server: {reason}. It is tried again; what happened meanwhile is read then.
          <Button small onClick={() => connection.retry()}>
            Try now
          </Button>
        </div>
      )}
      {state === "behind" && (
        <div className="notice-bar busy" role="status">
          <Icon name="waiting" /> Behind: {pending} events have arrived and are not shown yet.
        </div>
      )}
      {known && !mayWrite && (
        <div className="notice-bar">
          <Icon name="trust" /> Read-only: {login}
        </div>
      )}
    </>
  );
}

/** A screen that fails is shown as failed; the others go on. */
class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: undefined };

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error };
  }

  override componentDidCatch(error: unknown, info: ErrorInfo): void {
    console.error(error, info.componentStack);
  }

  override render(): ReactNode {
    if (this.state.error === undefined) return this.props.children;
    return (
      <div className="page">
        <ErrorNotice error={this.state.error} retry={() => this.setState({ error: undefined })} />
      </div>
    );
  }
}
