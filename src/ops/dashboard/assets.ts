/**
 * The dashboard's files as the browser gets them, from memory.
 *
 * The browser's TypeScript is imported as text, so that it is within the compiled binary by itself,
 * and its types are blanked out at the start (`stripTypeScriptTypes`): no bundler, no generated file.
 * Only types that can be erased are possible.
 *
 * What this file keeps true: nothing in here tells anything of a relay, so the files may be served
 * without a token; and a browser runs and asks for nothing but what comes from this origin.
 *
 * @module
 */

import { stripTypeScriptTypes } from "node:module";
import chart from "./chart.ts" with { type: "text" };
import charts from "./charts.ts" with { type: "text" };
import details from "./details.ts" with { type: "text" };
import dom from "./dom.ts" with { type: "text" };
import failed from "./failed.ts" with { type: "text" };
import failedRow from "./failed_row.ts" with { type: "text" };
import format from "./format.ts" with { type: "text" };
import live from "./live.ts" with { type: "text" };
import overview from "./overview.ts" with { type: "text" };
import pageHtml from "./page.html" with { type: "text" };
import page from "./page.ts" with { type: "text" };
import relayApi from "./relay_api.ts" with { type: "text" };
import sse from "./sse.ts" with { type: "text" };
import style from "./style.css" with { type: "text" };
import view from "./view.ts" with { type: "text" };

const MODULES: Readonly<Record<string, string>> = {
  "chart.ts": chart,
  "charts.ts": charts,
  "details.ts": details,
  "dom.ts": dom,
  "failed.ts": failed,
  "failed_row.ts": failedRow,
  "format.ts": format,
  "live.ts": live,
  "overview.ts": overview,
  "page.ts": page,
  "relay_api.ts": relayApi,
  "sse.ts": sse,
  "view.ts": view,
};

const HEADERS = {
  "cache-control": "no-cache",
  "content-security-policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self' data:",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; "),
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

interface Asset {
  readonly type: string;
  readonly text: string;
}

/** Makes a function that gives the answer for a path; undefined where no file is. */
export function createAssets(): (path: string) => Response | undefined {
  const assets = new Map<string, Asset>([
    ["/", { type: "text/html", text: pageHtml }],
    ["/dashboard/style.css", { type: "text/css", text: style }],
  ]);
  for (const [name, source] of Object.entries(MODULES)) {
    assets.set(`/dashboard/${name}`, {
      type: "text/javascript",
      text: stripTypeScriptTypes(source),
    });
  }
  return (path) => {
    const asset = assets.get(path);
    if (asset === undefined) return undefined;
    return new Response(asset.text, {
      headers: { ...HEADERS, "content-type": `${asset.type}; charset=utf-8` },
    });
  };
}
