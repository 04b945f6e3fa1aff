// The style sheet of the HTML pages.
#pragma once

namespace tombolo::tools {

inline constexpr const char kPageStyle[] = R"css(
:root { color-scheme: light dark;
  --page: #f6f6f4; --card: #ffffff; --ink: #10100f; --soft: #52514e; --faint: #75746f; --grid: #e7e6e1;
  --axis: #b9b8b0; --edge: #e2e1dc; --bar: #a9b4c2; --best: #2a6fc9; --mark: #10100f;
  --infiniband: #2a78d6; --roce: #1baf7a; --iwarp: #4a3aa7; --tcp: #e0702c;
  --forward: #2a78d6; --backward: #1a9c8a; --optimizer: #6a55c8; --reduce: #e0702c; --exchange: #c2487a; --transfer: #e5ac17;
  --weights: #8cc9c0; --m-parameters: #2a78d6; --m-gradients: #1a9c8a; --m-optimizer: #6a55c8;
  --m-activations: #e5ac17; --m-buffers: #a9b4c2;
  --heat0: #e3eefb; --heat1: #c4dcf7; --heat2: #9cc4f0; --heat3: #6ba5e5; --heat4: #3f86d6; --heat5: #2364b0;
  --heat6: #123f78; --on-pale: #10100f; --on-deep: #ffffff; --warn-back: #fff4dc; --warn-edge: #e2b550; }
@media (prefers-color-scheme: dark) { :root {
  --page: #141413; --card: #1e1e1c; --ink: #f4f4f0; --soft: #c3c2b7; --faint: #98968d; --grid: #2f2f2c;
  --axis: #55544e; --edge: #33332f; --bar: #5d6b7c; --best: #4c95ec; --mark: #f4f4f0;
  --infiniband: #4c95ec; --roce: #22b481; --iwarp: #9085e9; --tcp: #e58448;
  --forward: #4c95ec; --backward: #25ad9a; --optimizer: #9085e9; --reduce: #e58448; --exchange: #d9668f; --transfer: #d9a51c;
  --weights: #1b6f64; --m-parameters: #4c95ec; --m-gradients: #25ad9a; --m-optimizer: #9085e9;
  --m-activations: #d9a51c; --m-buffers: #5d6b7c;
  --heat0: #16263a; --heat1: #173454; --heat2: #1b4675; --heat3: #225c9c; --heat4: #3579c4; --heat5: #68a5e8;
  --heat6: #a9cffa; --on-pale: #f4f4f0; --on-deep: #10100f; --warn-back: #2f2817; --warn-edge: #7c6426; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 36px 24px 60px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 0 0 4px; }
h3 { font-size: 14px; margin: 18px 0 4px; color: var(--soft); font-weight: 600; }
p { margin: 4px 0 12px; max-width: 78ch; }
.lead { font-size: 17px; color: var(--soft); }
.note { color: var(--soft); font-size: 14px; }
section { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 22px 26px;
  margin: 18px 0; }
.emulated { background: var(--warn-back); border-color: var(--warn-edge); }
.emulated p:last-child { margin-bottom: 0; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 14px; margin: 18px 0; }
.tile { background: var(--card); border: 1px solid var(--edge); border-radius: 10px; padding: 16px 18px; }
.tile b { display: block; font-size: 30px; line-height: 1.2; font-weight: 650; }
.tile span { color: var(--soft); font-size: 13.5px; display: block; line-height: 1.4; }
svg { width: 100%; height: auto; display: block; margin: 8px 0; }
svg text { font-size: 12.5px; fill: var(--ink); font-variant-numeric: tabular-nums; }
svg .tick { fill: var(--faint); font-size: 11.5px; }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg .value { fill: var(--soft); }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); }
.bar { fill: var(--bar); } .best { fill: var(--best); } .mark { fill: var(--mark); }
.kind-infiniband { fill: var(--infiniband); } .kind-roce { fill: var(--roce); }
.kind-iwarp { fill: var(--iwarp); } .kind-tcp { fill: var(--tcp); }
.t-forward { fill: var(--forward); } .t-backward { fill: var(--backward); }
.t-optimizer { fill: var(--optimizer); } .t-all-reduce { fill: var(--reduce); }
.t-all-to-all { fill: var(--exchange); }
.t-transfer { fill: var(--transfer); } .t-weights { fill: var(--weights); }
.m-parameters { fill: var(--m-parameters); } .m-gradients { fill: var(--m-gradients); }
.m-optimizer { fill: var(--m-optimizer); } .m-activations { fill: var(--m-activations); }
.m-buffers { fill: var(--m-buffers); }
.curve { fill: none; stroke: var(--best); stroke-width: 2; stroke-linejoin: round; }
.dot { fill: var(--best); stroke: var(--card); stroke-width: 2; }
.heat0 { fill: var(--heat0); } .heat1 { fill: var(--heat1); } .heat2 { fill: var(--heat2); }
.heat3 { fill: var(--heat3); } .heat4 { fill: var(--heat4); } .heat5 { fill: var(--heat5); }
.heat6 { fill: var(--heat6); }
svg .on-heat0, svg .on-heat1, svg .on-heat2, svg .on-heat3 { fill: var(--on-pale); }
svg .on-heat4, svg .on-heat5, svg .on-heat6 { fill: var(--on-deep); }
svg .cell { font-size: 11.5px; } svg .small { font-size: 10.5px; opacity: .85; }
.no-link { fill: none; stroke: var(--grid); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 18px; font-size: 13px; color: var(--soft); margin: 8px 0; }
.legend i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
.maps { display: grid; grid-template-columns: repeat(auto-fit, minmax(380px, 1fr)); gap: 8px 36px; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 1px solid var(--axis);
  padding: 6px 12px 6px 0; }
td { border-bottom: 1px solid var(--edge); padding: 6px 12px 6px 0; vertical-align: top; }
th.number, td.number { text-align: right; } td.number { white-space: nowrap; }
pre { background: var(--page); border: 1px solid var(--edge); border-radius: 8px; padding: 14px 16px;
  white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace;
  margin: 8px 0 0; }
details { margin-top: 12px; } summary { cursor: pointer; color: var(--soft); font-size: 14px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 20px; margin: 8px 0 0; font-size: 14px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
@media (max-width: 720px) {
  main { padding: 20px 12px 40px; } section { padding: 16px; overflow-x: auto; }
  svg { min-width: 720px; } .maps svg { min-width: 0; } .wide table:has(th:nth-child(7)) { min-width: 900px; } }
)css";

}  // namespace tombolo::tools
