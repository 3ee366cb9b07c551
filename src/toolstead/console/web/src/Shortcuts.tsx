import { useEffect, useRef, useState, type ReactNode } from "react";
import { useLocation } from "wouter";

import { SCREENS } from "./screens";
import { Dialog } from "./ui/Dialog";

const CHORD_MS = 1200;

/** Keys that work on every screen; in a field they are letters. */
export function Shortcuts(): ReactNode {
  const [isOpen, setOpen] = useState(false);
  const [, go] = useLocation();
  const chordUntil = useRef(0);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (performance.now() < chordUntil.current) {
        chordUntil.current = 0;
        const screen = SCREENS.find((one) => one.key === event.key);
        if (screen) {
          event.preventDefault();
          go(screen.path);
          document.getElementById("main")?.focus();
        }
      } else if (event.key === "g") {
        chordUntil.current = performance.now() + CHORD_MS;
      } else if (event.key === "?") {
        setOpen(true);
      } else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("input[type=search]");
        if (search) {
          event.preventDefault();
          search.focus();
          search.select();
        }
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [go]);
  return (
    <Dialog open={isOpen} onClose={() => setOpen(false)} title="Keys">
      <dl className="facts">
        {SCREENS.map((screen) => (
          <Key key={screen.key} keys={["g", screen.key]} does={screen.name} />
        ))}
        <Key keys={["/"]} does="Search on this screen" />
        <Key keys={["Esc"]} does="Close, leave a field" />
        <Key keys={["?"]} does="This list" />
      </dl>
    </Dialog>
  );
}

function Key({ keys, does }: { keys: readonly string[]; does: string }): ReactNode {
  return (
    <>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{does}</dd>
    </>
  );
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}
