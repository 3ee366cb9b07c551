import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Trust(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Trust" />
    </div>
  );
}
