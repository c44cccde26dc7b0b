// Styles of the report, in light and dark.
export const PAGE_STYLE = `
:root { color-scheme: light dark; --ink: #1c2024; --dim: #60646c; --line: #e0e1e6; --ground: #fcfcfd;
  --server0: #2a6fdb; --server1: #d9730d; --server2: #6f52b5; --server3: #3a8a4d; }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --dim: #9a9ea6; --line: #2e3135; --ground: #111113;
  --server0: #6aa5ff; --server1: #f0a04b; --server2: #b39df0; --server3: #6cc483; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 32px 24px 64px; max-width: 1280px; color: var(--ink); background: var(--ground);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 40px 0 8px; }
p, li { max-width: 76ch; } .dim { color: var(--dim); }
svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .tick { fill: var(--dim); font-size: 11px; } svg .value { font-weight: 600; }
.grid { stroke: var(--line); } .one { stroke: var(--ink); stroke-width: 1.5; }
.ahead { fill: var(--server0); } .behind { fill: var(--server1); }
.curve { fill: none; stroke-width: 2; } .p50 { stroke-dasharray: 5 4; stroke-width: 1.5; }
.server0 { stroke: var(--server0); } .server1 { stroke: var(--server1); } .server2 { stroke: var(--server2); } .server3 { stroke: var(--server3); }
.dot.server0, i.server0 { fill: var(--server0); background: var(--server0); }
.dot.server1, i.server1 { fill: var(--server1); background: var(--server1); }
.dot.server2, i.server2 { fill: var(--server2); background: var(--server2); }
.dot.server3, i.server3 { fill: var(--server3); background: var(--server3); }
.swatch { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 6px; }
.legend span { margin-right: 18px; white-space: nowrap; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 20px; }
figure { margin: 0; } figcaption { font-weight: 600; font-size: 13px; margin-bottom: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 500; } th:nth-child(-n+2), th:last-child, td.name, td[rowspan], td.more, td.skipped { text-align: left; }
td small { display: block; color: var(--dim); white-space: nowrap; } td.skipped { color: var(--dim); }
td { white-space: nowrap; } td.more, td[rowspan], td.skipped { white-space: normal; } td.more { min-width: 22em; } td[rowspan] { min-width: 13em; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 0; } dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
`;
