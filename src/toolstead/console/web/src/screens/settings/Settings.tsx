import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Settings(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Settings" />
    </div>
  );
}
