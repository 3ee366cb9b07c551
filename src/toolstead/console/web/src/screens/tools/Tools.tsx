import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Tools(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Tools" />
    </div>
  );
}
