import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Events(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Events" />
    </div>
  );
}
