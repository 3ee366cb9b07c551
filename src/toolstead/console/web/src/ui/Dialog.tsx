import * as Ariakit from "@ariakit/react";
import type { ReactNode } from "react";

/** A dialog over the page: focus stays in it, Esc closes it, and focus goes back. */
export function Dialog(props: {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  children: ReactNode;
  actions?: ReactNode;
}): ReactNode {
  return (
    <Ariakit.Dialog
      open={props.open}
      onClose={props.onClose}
      className="dialog"
      backdrop={<div className="dialog-shade" />}
      unmountOnHide
      preventBodyScroll={false}
    >
      <Ariakit.DialogHeading>{props.title}</Ariakit.DialogHeading>
      {props.children}
      {props.actions && <div className="actions">{props.actions}</div>}
    </Ariakit.Dialog>
  );
}
