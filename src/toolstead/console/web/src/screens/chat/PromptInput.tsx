import { useLayoutEffect, useRef, type ReactNode } from "react";

import { Button } from "../../ui/parts";

/** Where a message is typed: Enter sends, Shift+Enter begins a line. */
export function PromptInput(props: {
  label: string;
  value: string;
  onChange: (text: string) => void;
  onSend: (text: string) => void;
  disabled?: boolean;
  autoFocus?: boolean;
  sendName?: string;
  children?: ReactNode;
}): ReactNode {
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => {
    const field = area.current;
    if (!field) return;
    field.style.height = "auto";
    field.style.height = `${Math.min(field.scrollHeight + 2, 320)}px`;
  }, [props.value]);
  const send = (): void => {
    const asked = props.value.trim();
    if (!asked || props.disabled) return;
    props.onSend(asked);
    area.current?.focus();
  };
  return (
    <div className="prompt">
      <textarea
        ref={area}
        className="input"
        rows={2}
        aria-label={props.label}
        placeholder={props.label}
        value={props.value}
        autoFocus={props.autoFocus}
        onChange={(event) => props.onChange(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) {
            event.preventDefault();
            send();
          }
        }}
      />
      <div className="row">
        {props.children}
        <span className="grow soft small prompt-hint">Enter sends, Shift+Enter begins a line</span>
        <Button kind="primary" disabled={props.disabled || props.value.trim() === ""} onClick={send}>
          {props.sendName ?? "Send"}
        </Button>
      </div>
    </div>
  );
}
