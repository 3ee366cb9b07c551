import type { ReactNode } from "react";

import { PageHead } from "../../ui/parts";

export default function Home(): ReactNode {
  return (
    <div className="page">
      <PageHead title="Home" />
    </div>
  );
}
