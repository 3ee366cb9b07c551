import * as Ariakit from "@ariakit/react";
import type { ReactNode } from "react";

export interface TabItem {
  id: string;
  name: ReactNode;
  panel: () => ReactNode;
}

/** Tabs that arrow keys move between; only the selected panel is rendered. */
export function Tabs(props: {
  items: readonly TabItem[];
  selected?: string;
  onSelect?: (id: string) => void;
  label: string;
}): ReactNode {
  const store = Ariakit.useTabStore({
    ...(props.selected === undefined ? { defaultSelectedId: props.items[0]?.id } : { selectedId: props.selected }),
    setSelectedId: (id) => id && props.onSelect?.(id),
  });
  const selected = Ariakit.useStoreState(store, "selectedId");
  return (
    <div>
      <Ariakit.TabList store={store} className="tabs" aria-label={props.label}>
        {props.items.map((item) => (
          <Ariakit.Tab key={item.id} id={item.id} className="tab">
            {item.name}
          </Ariakit.Tab>
        ))}
      </Ariakit.TabList>
      {props.items.map((item) => (
        <Ariakit.TabPanel key={item.id} store={store} tabId={item.id} className="tab-panel">
          {selected === item.id ? item.panel() : null}
        </Ariakit.TabPanel>
      ))}
    </div>
  );
}
