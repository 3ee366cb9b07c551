import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Plugins(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Plugins" />
    </div>
  );
}
