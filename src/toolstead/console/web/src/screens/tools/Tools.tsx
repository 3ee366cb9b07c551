import type { ReactNode } from "react";
import { useRoute } from "wouter";

import { ToolList } from "./ToolList";
import { ToolPage } from "./ToolPage";

export default function Tools(): ReactNode {
  const [, params] = useRoute("/tools/:tool");
  return params ? <ToolPage key={params.tool} name={decodeURIComponent(params.tool)} /> : <ToolList />;
}
